"""`tsviz why`, `blame` and `findings` on shipped traces: what they print, and the codes they end with."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.conformance.notation import full
from tests.incidents.scene import Scene
from tsviz.cli import blame, findings, why
from tsviz.scheduler import compat

from .conftest import Tsviz

ROOT = Path(__file__).parents[2]
TRACES = ROOT / "traces"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))


def test_the_round_stands_behind_the_request_or_the_trace(tsviz: Tsviz) -> None:
    """Both ways of saying the round give the same answer, and decisions are derived on the way."""
    one = tsviz("why", TRACES / "head-of-line", "chat-2@8")
    other = tsviz("why", f"{TRACES / 'head-of-line'}@8", "chat-2")
    assert (one.code, other.code) == (0, 0)
    assert one.out == other.out
    assert one.out.startswith("In round 8 chat-2 has no row: behind report (head of line), 4 rounds.")
    assert "chunk 5 of 12" in one.out


def test_a_damaged_index_is_built_anew(tsviz: Tsviz, tmp_path: Path) -> None:
    """One flipped byte in the middle of each of its tables in turn changes no answer and ends no command."""
    whole = tsviz("why", TRACES / "head-of-line", "chat-2@8")
    (index,) = (tmp_path / "cache").glob("*/index.json")
    files = sorted(path.relative_to(index.parent) for path in index.parent.rglob("*.parquet"))
    for file in files:
        damaged = index.parent / file
        content = bytearray(damaged.read_bytes())
        content[len(content) // 2] ^= 0x40
        damaged.write_bytes(content)
        again = tsviz("why", TRACES / "head-of-line", "chat-2@8")
        assert (again.code, again.out) == (0, whole.out), file
    assert len(files) > 5


def test_the_tree_is_data(tsviz: Tsviz) -> None:
    """With --format json the tree has kinds, numbers and positions."""
    answer = tsviz("why", TRACES / "mixed-stall", "newcomer@3", "--format", "json").json()
    assert (answer["cause"], answer["cycle"]) == ("nothing_retractable", ["newcomer", "resident"])
    deficit = answer["tree"]["children"][0]
    assert (deficit["kind"], deficit["numbers"]["deficit_blocks"], deficit["position"]) == ("deficit", 2, "3.4")


def test_wrong_questions_are_usage_errors(tsviz: Tsviz) -> None:
    """An unknown request, an unknown finding and two rounds end with 2."""
    assert tsviz("why", TRACES / "head-of-line", "nobody").code == 2
    assert tsviz("why", f"{TRACES / 'head-of-line'}@8", "chat-2@9").code == 2
    assert tsviz("blame", TRACES / "head-of-line", "--request", "nobody").code == 2
    assert tsviz("findings", TRACES / "head-of-line", "--fail-on", "nothing").code == 2


def test_blame_splits_a_request(tsviz: Tsviz) -> None:
    """The shares of chat-2's time to first token make up all of it."""
    rows = tsviz("blame", TRACES / "head-of-line", "--request", "chat-2", "--format", "json").json()
    first = [row for row in rows if row["span"] == "ttft"]
    assert first[0]["cause"] == "head_of_line"
    assert sum(row["percent"] for row in first) == pytest.approx(100, abs=0.3)


def test_blame_by_holder_adds_up_to_the_same_time(tsviz: Tsviz) -> None:
    """r2 holds the pages that r1 lacks, r1 seals the door; what nobody held has a row, and no time is doubled."""
    trace = TRACES / "readmission-seals"
    by_cause, by_holder = (tsviz("blame", trace, "--by", by, "--format", "json").json() for by in ("cause", "holder"))
    sums: list[Counter[tuple[str, str]]] = [Counter(), Counter()]
    for total, rows in zip(sums, (by_cause, by_holder), strict=True):
        for row in rows:
            total[row["span"], row["cause"]] += row["time_ns"]
    assert sums[0] == sums[1]
    held = {(row["span"], row["cause"], row["holder"]): row for row in by_holder}
    assert held["ttft", "sealed_by_readmission", "r1"]["longest_request"] == "new-1"
    assert held["tpot", "capacity", "r2"]["percent"] > held["tpot", "capacity", "new-5"]["percent"]


def test_blame_says_that_there_is_another_part(tsviz: Tsviz) -> None:
    """Of a pair the prefill node is answered for, and the decode node named; a round is refused with what asks it."""
    ended = tsviz("blame", TRACES / "prefill-decode-pair")
    assert "P/0 of 2 parts" in ended.err and "asks another: D/0" in ended.err
    assert "of 2 parts" not in tsviz("blame", f"{TRACES / 'prefill-decode-pair'}@D/0").err
    refused = tsviz("blame", f"{TRACES / 'mixed-stall'}@3")
    assert refused.code == 2 and "`tsviz why` asks one round" in refused.err


def test_blame_of_who_was_aborted_and_who_was_refused(tsviz: Tsviz, tmp_path: Path) -> None:
    """B was aborted behind A's prompt: its wait is split; C never fits: it has no time, and that is said."""
    s = Scene(compat, [full(4)], tmp_path / "scene", page=4, pages=21, budget=8)
    s.submit("A", 24)
    s.submit("B", 4)
    with pytest.raises(ValueError, match="exceeds cache capacity"):
        s.submit("C", 400)
    s.rounds(2)
    s.abort("B")
    s.rounds(1)
    s.close()
    rows = tsviz("blame", tmp_path / "scene", "--request", "B", "--format", "json").json()
    assert {row["span"] for row in rows} == {"ended_without_token"}
    assert rows[0]["cause"] == "head_of_line"
    refused = tsviz("blame", tmp_path / "scene", "--request", "C")
    assert (refused.code, refused.out) == (0, "")
    assert "C: the scheduler refused it" in refused.err


def test_findings_in_a_pipe_are_a_bounded_line_each(tsviz: Tsviz) -> None:
    """Eight findings of up to 15 requests: nine lines, below 300 characters, each with its name, place and sentence."""
    ended = tsviz("findings", TRACES / "mixed-undeclared-livelock")
    head, *lines = ended.out.splitlines()
    found = tsviz("findings", TRACES / "mixed-undeclared-livelock", "--format", "json").json()
    assert head.split() == ["finding", "outcome", "at", "sentence"]
    assert max(map(len, lines)) < 300 and len(lines) == len(found) == 8
    for line, row in zip(lines, found, strict=True):
        assert line.startswith(f"{row['finding']} ") and row["at"] in line and line.endswith(row["sentence"])


def test_findings_jump_and_end_with_0(tsviz: Tsviz) -> None:
    """A finding names its position and its numbers; found or not, the code is 0."""
    ended = tsviz("findings", TRACES / "mixed-stall", "--format", "json")
    rows = {row["finding"]: row for row in ended.json()}
    assert ended.code == 0
    assert rows["stall"]["at"] == "F/0:3, F/0:5"
    assert rows["stall"]["numbers"] == {"rounds": 3, "requests": 2}


def test_fail_on_a_finding_ends_with_1(tsviz: Tsviz) -> None:
    """A finding that breaks no invariant ends with 1 if that is asked for, one that is not there with 0."""
    assert tsviz("findings", TRACES / "mixed-stall", "--fail-on", "stall").code == 1
    assert tsviz("findings", TRACES / "mixed-stall", "--fail-on", "plan_breach").code == 0


def test_recorded_only_says_what_it_cannot_check(tsviz: Tsviz, tmp_path: Path) -> None:
    """Without decisions their checks are not checkable, and no index is built."""
    ended = tsviz("findings", TRACES / "mixed-stall", "--recorded-only", "--all", "--format", "json")
    outcomes = {row["finding"]: row["outcome"] for row in ended.json()}
    assert (outcomes["stall"], outcomes["never_fits"]) == ("found", "not_checkable")
    assert not list((tmp_path / "cache").rglob("index.json"))


@pytest.mark.parametrize("module", [why, blame, findings])
def test_the_examples_of_the_help_run(tsviz: Tsviz, monkeypatch: pytest.MonkeyPatch, module: object) -> None:
    """Each example in the help of a command runs from the repository's root and ends with 0."""
    monkeypatch.chdir(ROOT)
    helped = module.command.help  # type: ignore[attr-defined]
    examples = [
        line.strip().split("   ")[0].split() for line in helped.split("\n") if line.strip().startswith("tsviz ")
    ]
    assert len(examples) >= 3
    for example in examples:
        ended = tsviz(*example[1:])
        assert ended.code == 0, (example, ended.err)


def test_findings_of_a_trace_with_gaps_say_that_nothing_could_be_checked(
    tsviz: Tsviz, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where rows were dropped no check can be made: that is said instead of "nothing found", and nothing is derived."""
    from tsviz.replay.findings import scan

    def derive(_part: object) -> None:
        raise AssertionError("decisions are derived for checks that cannot be made")

    monkeypatch.setattr(scan, "dropped_tables", lambda _part: ["operations"])
    monkeypatch.setattr(findings, "decisions_of", derive)
    ended = tsviz("findings", TRACES / "mixed-stall", "--format", "json")
    assert (ended.code, ended.json()) == (0, [])
    assert "nothing could be checked: rows were dropped while recording: operations (table gaps)" in ended.err
    assert "nothing found" not in ended.err
