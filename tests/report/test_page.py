"""The page of a report: well-formed, needing nothing else, and saying what the trace says."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tsviz.cli.main import main
from tsviz.cli.report import subject_of
from tsviz.cli.traces import open_place, parse_place
from tsviz.query.catalog import Catalog
from tsviz.query.locked import Limits, Locked
from tsviz.report.page import page
from tsviz.report.subject import Subject, SubjectPart

from .conftest import NO_CODE

pytestmark = pytest.mark.timeout(300)
"""The first test on a trace waits for its decisions to be derived."""

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


@pytest.mark.parametrize("name", ["prefill-decode-pair", "head-of-line", "mixed-undeclared-livelock"])
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
    policies = [a["content"] for t, a in outline(report("head-of-line")).elements if a.get("http-equiv")]
    assert len(policies) == 1
    rules = dict(rule.strip().split(" ", 1) for rule in (policies[0] or "").split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data: blob:"
    assert re.fullmatch(r"'sha256-[A-Za-z0-9+/=]{44}' 'sha256-none'", rules["script-src"])
    assert "connect-src" not in rules


def test_every_string_of_a_trace_stays_text(hostile_page: str) -> None:
    """Ids that look like markup open no element, end no script, and are told in the clear."""
    read = outline(hostile_page)
    assert (read.wrong, read.open) == ([], [])
    assert not {tag for tag, _ in read.elements} & {"img", "a", "i"}
    assert [a.get("type") for tag, a in read.elements if tag == "script"] == ["application/json", "text/plain", None]
    assert "owned" not in "".join(read.texts["title"])
    cells = set(read.texts["td"])
    assert {"</script><script>document.title='owned'</script>", "@decode", '"quoted" & &amp;'} <= cells
    assert {"␛[31mred␇", "�turned�"} <= cells


def test_charts_get_no_markup_and_no_character_that_turns_text(hostile_page: str) -> None:
    """What plotly reads as tags or templates has no `<` of a trace, and names of lanes have no control character."""
    (part,) = data_of(hostile_page)
    for chart in part["charts"]:
        for trace in chart["data"]:
            assert "<" not in trace["name"] and "%{" not in trace["name"]
    (names,) = [chart["names"] for chart in part["charts"] if chart["name"] == "gantt"]
    assert len(names) == 10
    assert all(character.isprintable() for name in names for character in name)


def test_a_copied_position_is_one_word_of_a_shell(hostile: Any, hostile_page: str) -> None:
    """What the buttons copy is taken by a shell as the words that are meant, whatever the folder is called."""
    commands = [
        a["data-copy"] or "" for tag, a in outline(hostile_page).elements if tag == "button" and "data-copy" in a
    ]
    assert commands
    for text in commands:
        words = shlex.split(text)
        assert (words[0] == "tsviz") == (len(words) > 1)
        assert words[min(2, len(words) - 1)].startswith(f"{hostile}@F/0:")


def test_the_same_trace_gives_the_same_bytes(hostile: Any, hostile_page: str) -> None:
    """Two reports of one trace do not differ in a byte."""
    place = parse_place(str(hostile))
    bundle, _ = open_place(place)
    assert page(subject_of(place, bundle, bundle.parts, False), NO_CODE) == hostile_page


def test_the_headline_of_a_live_lock_says_who_does_not_end_and_since_when(report: Report) -> None:
    """305 of 310 finish in the shipped live-lock, which the finding dates from round 2,522 to the last, 2,800."""
    text = report("mixed-undeclared-livelock")
    assert "5 of 310 requests never finish: live-lock from round 2,522 to 2,800." in text
    (part,) = data_of(text)
    assert part["shade"] == [2522, 2800, "live-lock"]


def test_a_position_of_a_finding_has_the_stop_that_is_about_its_request(report: Report) -> None:
    """The live-lock begins at stop 3 of round 2,522, the first that tries one of its two requests."""
    text = report("mixed-undeclared-livelock")
    assert re.search(r'data-copy="[^"]*mixed-undeclared-livelock@F/0:2522\.3"', text)


def test_lanes_add_up_to_the_life_of_each_request(report: Report) -> None:
    """Phases of a lane do not overlap, and all 310 requests have one."""
    (part,) = data_of(report("mixed-undeclared-livelock"))
    (chart,) = [chart for chart in part["charts"] if chart["name"] == "gantt"]
    lanes: dict[int, list[tuple[int, int]]] = {}
    for flat in chart["segments"]:
        for i in range(0, len(flat), 3):
            lanes.setdefault(flat[i], []).append((flat[i + 1], flat[i + 2]))
    assert sorted(lanes) == list(range(310))
    for pieces in lanes.values():
        ordered = sorted(pieces)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(ordered))


def test_without_decisions_a_report_says_what_it_leaves_out(report: Report) -> None:
    """With recorded tables alone there is no chart of causes, and the page says why."""
    text = report("mixed-undeclared-livelock", recorded_only=True)
    assert "Decisions are not known" in text
    names = {chart["name"] for chart in data_of(text)[0]["charts"]}
    assert names >= {"gantt", "requests", "budget", "pool", "retractions", "ttft"}
    assert not names & {"waits", "cached", "lost"}


def test_a_prefill_and_a_decode_node_each_have_a_section(report: Report) -> None:
    """A trace of two schedulers has the charts of both, with links to them."""
    text = report("prefill-decode-pair")
    assert [part["part"] for part in data_of(text)] == ["P/0", "D/0"]
    assert {a.get("href") for tag, a in outline(text).elements if tag == "a"} == {"#part-P-0", "#part-D-0"}


def test_a_rank_that_makes_the_same_plans_is_said_once(tmp_path: Path) -> None:
    """Of two ranks that mirror each other the second has a sentence in place of charts and tables."""
    out = tmp_path / "ranks"
    with pytest.raises(SystemExit) as ended:
        main(["record", "--workload", "poisson:requests=6,rate=60,prompt_tokens=60,output_tokens=9", "--scheduler",
              "twin", "--pages", "65", "--ranks", "2", "--out", str(out)])  # fmt: skip
    assert ended.value.code == 0
    place = parse_place(str(out))
    bundle, _ = open_place(place)
    text = page(subject_of(place, bundle, bundle.parts, False), NO_CODE)
    assert "F/1 makes the same plans as F/0 in every round" in text
    assert [part["part"] for part in data_of(text)] == ["F/0"]


def test_a_trace_without_a_round_has_a_page() -> None:
    """A part that recorded nothing is said to have recorded nothing."""

    class Part:
        node, rank = "F", 0

        def tables(self) -> dict[str, Any]:
            return {}

    class Bundle:
        name, parts = "empty", (Part(),)

    locked = Locked(Catalog([Bundle()]), Limits(seconds=None, rows=None))
    about = {"name": "empty", "parts": [], "warnings": [], "workload": {}, "command": "", "schema": "1.0", "tokens": ""}
    subject = Subject("empty", about, lambda sql: locked.query(sql)[0].to_pylist(), (SubjectPart("F", 0, (), ()),), "0")
    text = page(subject, NO_CODE)
    assert "No request was taken in." in text and "No round was recorded." in text
    assert outline(text).wrong == []


def test_every_chart_is_told_in_words(report: Report) -> None:
    """Every chart has a title that names it for a screen reader and a caption; but for the lanes also a table."""
    text = report("mixed-undeclared-livelock")
    read = outline(text)
    ids = {attributes.get("id") for _, attributes in read.elements}
    charts = [a for tag, a in read.elements if a.get("role") == "img"]
    assert len(charts) >= 12
    assert all(a["aria-labelledby"] in ids for a in charts)
    assert len(read.texts["figcaption"]) == len(charts)
    assert text.count("<summary>as a table</summary>") == len(charts) - 1


def test_nothing_is_told_by_colour_alone(report: Report) -> None:
    """In every chart of several layers no two have the same pattern or dash."""
    for chart in data_of(report("mixed-undeclared-livelock"))[0]["charts"]:
        looks = [
            (trace["type"], trace.get("fillpattern", {}).get("shape"), trace.get("line", {}).get("dash"),
             trace.get("marker", {}).get("pattern", {}).get("shape"))
            for trace in chart["data"]
        ]  # fmt: skip
        assert len(looks) == len(set(looks)), chart["name"]
