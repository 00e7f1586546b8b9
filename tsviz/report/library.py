"""plotly.js as it goes into the file: the package's own bundle, packed, with the digest that admits it to the page.

The only module that imports plotly. Of its 4.8 MB, gzip and base64 leave 2.0 MB; the browser unpacks it
(`DecompressionStream`) and runs it as an inline script, which the page's policy admits by its digest.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from dataclasses import dataclass


class NoPlotly(Exception):
    """The package is not installed; the message says how to get it."""


@dataclass(frozen=True, slots=True)
class Library:
    """Code for the page."""

    version: str
    packed: str
    """gzip, base64."""
    digest: str
    """As `script-src` takes it: `sha256-...`."""


def digest(script: str) -> str:
    """Return the digest by which a policy admits an inline script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def library() -> Library:
    """Return plotly.js of the installed package. Raises NoPlotly."""
    try:
        from plotly import __version__
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise NoPlotly("tsviz report needs plotly: pip install 'tsviz[report]'") from error
    script = get_plotlyjs()
    packed = base64.b64encode(gzip.compress(script.encode(), 9, mtime=0)).decode()
    return Library(__version__, packed, digest(script))
