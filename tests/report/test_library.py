"""plotly.js as it goes into a report."""

from __future__ import annotations

import base64
import gzip

import pytest

from tsviz.report.library import digest, library

from .test_size import PACKED_CODE_BYTES


def test_the_digest_is_that_of_the_policy() -> None:
    """The digest of an inline script is base64 of its SHA-256: the value that the standard gives as its example."""
    assert digest("alert('Hello, world.');") == "sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng="


def test_the_packed_library_is_the_packages_own() -> None:
    """Unpacked it is what plotly ships, and its digest admits it."""
    offline = pytest.importorskip("plotly.offline", reason="needs the extra `report`")
    packed = library()
    script = gzip.decompress(base64.b64decode(packed.packed)).decode()
    assert script == offline.get_plotlyjs()
    assert packed.digest == digest(script)
    assert len(packed.packed) < PACKED_CODE_BYTES
