"""The page of a report: well-formed, needing nothing else, and saying what the trace says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

Report = Callable[..., str]
VOID = {"meta", "input", "br"}
FETCHING = {"src", "href", "action", "data", "poster", "srcset", "formaction", "background", "cite", "ping"}


class Outline(HTMLParser):
    """Reads a page strictly: elements must be closed in order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.wrong: list[str] = []
        self.texts: dict[str, list[str]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            self.wrong.append(f"</{tag}> inside {self.open[-3:]} at {self.getpos()}")
        else:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


def outline(page: str) -> Outline:
    """Read a page."""
    read = Outline()
    read.feed(page)
    read.close()
    return read


def data_of(page: str) -> list[dict[str, Any]]:
    """Return what the charts of a page draw, a dictionary a part."""
    found = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    parts: list[dict[str, Any]] = json.loads(found[1])
    return parts


@pytest.mark.parametrize("name", ["mixed-stall", "prefill-decode-pair", "head-of-line", "mixed-undeclared-livelock"])
def test_a_page_is_well_formed_and_refers_to_nothing_outside(report: Report, name: str) -> None:
    """Every element is closed in order, ids are unique, and no attribute names anything but a place in the page."""
    read = outline(report(name))
    assert (read.wrong, read.open) == ([], [])
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in read.elements:
        assert tag not in {"link", "iframe", "object", "embed", "img", "base"}
        for key, value in attributes.items():
            assert key not in FETCHING or (value or "").startswith("#"), (tag, key, value)
            assert not key.startswith("on"), (tag, key)
    assert "url(" not in "".join(read.texts["style"]) and "@import" not in "".join(read.texts["style"])


def test_the_policy_of_a_page_lets_nothing_in(report: Report) -> None:
    """The policy forbids every fetch, and scripts but the two whose digests it names."""
    policies = [a["content"] for t, a in outline(report("mixed-stall")).elements if a.get("http-equiv")]
    assert len(policies) == 1
    rules = dict(rule.strip().split(" ", 1) for rule in (policies[0] or "").split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data: blob:"
    assert re.fullmatch(r"'sha256-[A-Za-z0-9+/=]{44}' 'sha256-none'", rules["script-src"])
    assert "connect-src" not in rules
