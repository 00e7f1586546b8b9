"""The report of a slice: who lived before it is drawn, and nothing is claimed that it cannot know."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tsviz.cli.report import subject_of
from tsviz.cli.traces import open_place, parse_place
from tsviz.replay.slice import write_slice
from tsviz.report.page import page
from tsviz.trace.reader import open_bundle

from .conftest import NO_CODE, ROOT


@pytest.fixture(scope="module")
def sliced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rounds 90 to 120 of the incident of retractions."""
    out = tmp_path_factory.mktemp("slice") / "sl"
    whole = open_bundle(ROOT / "traces" / "retract-and-grant")
    write_slice(whole, whole.parts[0], 90, 120, out)
    return out


@pytest.mark.parametrize("recorded_only", [True, False])
def test_all_requests_of_a_slice_are_drawn_from_its_first_round(sliced: Path, recorded_only: bool) -> None:
    """Five decode from round 90 on; r6 is out until it starts over in round 101, which is no retraction of round 90."""
    place = parse_place(str(sliced))
    bundle, _ = open_place(place)
    text = page(subject_of(place, bundle, bundle.parts, recorded_only), NO_CODE)
    found = re.search(r'"segments":(\[\[.*?\]\]),"retracted":(\[.*?\])', text)
    assert found is not None
    _, prefill, decode, retracted = json.loads(found[1])
    begins = dict(zip(decode[::3], decode[1::3], strict=True))
    assert begins == {0: 90, 1: 90, 2: 90, 3: 90, 4: 90, 5: 102}
    assert prefill == [5, 101, 102]
    assert retracted[-3:] == [5, 90, 101]
    assert 90 not in json.loads(found[2])[1::2]
    assert "2 retractions for want of pages.<" in text
    assert "6 of 6 requests had not ended when the slice did." in text
    assert "1th" not in text
