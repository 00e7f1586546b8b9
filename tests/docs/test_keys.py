"""`docs/keys.md` and the keys that the guide names, against the keys in code."""

from __future__ import annotations

import re

from tests.docs.tour import ROOT
from tsviz.tui.keys import KEYS
from tsviz.tui.keys_reference import reference


def test_the_list_of_keys_is_the_code_s() -> None:
    """The document is what `python -m tsviz.tui.keys_reference` writes."""
    assert (ROOT / "docs" / "keys.md").read_text("utf-8") == reference()


def test_the_keys_that_lead_to_the_screens_are_those_of_the_guide() -> None:
    """`* **Findings** (`f`)` and its like name the key of the main screen."""
    guide = (ROOT / "docs" / "guide.md").read_text("utf-8")
    keys = {key.keys for key in KEYS}
    named = re.findall(r"^\* \*\*(?:Findings|Lost time|SQL|Breakpoints|Compare|Pages)\*\* \(`(.)`", guide, re.MULTILINE)
    assert sorted(named) == sorted("fLqbDm")
    assert set(named) <= keys
