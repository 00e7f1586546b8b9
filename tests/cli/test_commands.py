"""Commands from end to end on the real scheduler: record, info, verify, sql, demo."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tsviz.trace.layout import read_json, write_json

from .conftest import Tsviz

pytestmark = pytest.mark.oracle


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file of a folder and the hash of its bytes."""
    files = (p for p in sorted(folder.rglob("*")) if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def test_a_recording_verifies_with_every_round_equal(tsviz: Tsviz, recorded: Path) -> None:
    """What was recorded of the real scheduler is what a fresh one does when the calls are made again."""
    ended = tsviz("verify", recorded, "--format", "json")
    (part,) = ended.json()
    assert ended.code == 0
    assert part["outcome"] == "equal"
    assert part["verified_rounds"] == part["recorded_rounds"] > 60


@pytest.mark.parametrize("mode", ["full", "identity"])
def test_both_token_modes_verify(tsviz: Tsviz, tmp_path: Path, mode: str) -> None:
    """A trace without a single token re-executes to the same plans as one that has them all."""
    sessions = "agent_sessions:sessions=3,turns=4,prompt_tokens=80,tail_tokens=30,output_tokens=40"
    out = tmp_path / mode
    assert tsviz("record", "--workload", sessions, "--pages", "129", "--tokens", mode, "--out", out).code == 0
    assert tsviz("verify", out).code == 0
    hits = tsviz("sql", out, "select count(*) c from operations where begin_tokens > 0", "--format", "json").json()
    assert hits[0]["c"] > 0, "turns that repeat an answer match the pages of it"


def test_a_changed_plan_is_named(tsviz: Tsviz, recorded: Path) -> None:
    """Verified against a scheduler with another budget, the first different round, field and both values are named."""
    part = recorded / "parts" / "F.0" / "part.json"
    described = read_json(part)
    described["config"]["max_scheduled_tokens"] = 100
    write_json(part, described)
    ended = tsviz("verify", recorded, "--format", "json")
    (row,) = ended.json()
    assert ended.code == 5
    assert (row["outcome"], row["field"].split("[")[0]) == ("diverged", "operations")
    assert row["expected"] != row["got"]
    assert row["round"] == row["verified_rounds"] + 1


def test_info_says_where_a_trace_comes_from(tsviz: Tsviz, recorded: Path) -> None:
    """The command, the workload with its seed, the engine and the end are in the trace's description."""
    view = tsviz("info", recorded, "--format", "json").json()
    assert view["workload"]["kind"] == "poisson"
    assert view["workload"]["max_new"] == "undeclared"
    assert view["workload"]["seed"] == 0
    assert view["parts"][0]["engine"] == "tokenspeed-scheduler 0.1.24"
    assert view["parts"][0]["ended"] == "drained"
    assert view["parts"][0]["finished"] == 20
    assert view["warnings"] == []


def test_a_pair_of_nodes_is_one_trace(tsviz: Tsviz, tmp_path: Path) -> None:
    """P and D of one run are two parts of one bundle, both verified, one failed transfer counted on both sides."""
    out = tmp_path / "pair"
    workload = "poisson:requests=6,rate=50,prompt_tokens=100,output_tokens=10"
    ended = tsviz(
        "record", "--workload", workload, "--pd", "--fail-transfer", "row-0000003", "--out", out, "--format", "json"
    )
    assert [(r["part"], r["finished"], r["failed"]) for r in ended.json()] == [("P/0", 5, 1), ("D/0", 5, 1)]
    assert [r["outcome"] for r in tsviz("verify", out, "--format", "json").json()] == ["equal", "equal"]
    rows = tsviz("sql", out, "select distinct node, rank from rounds order by 1", "--format", "json").json()
    assert rows == [{"node": "D", "rank": 0}, {"node": "P", "rank": 0}]


def test_a_perturbed_rank_makes_other_plans(tsviz: Tsviz, tmp_path: Path) -> None:
    """With one page fewer on rank 1 the digests of the ranks part ways, and each rank verifies by itself."""
    out = tmp_path / "ranks"
    workload = "poisson:requests=20,rate=60,prompt_tokens=120,output_tokens=60"
    perturb = ("--ranks", "2", "--perturb", "1:page_fewer")
    assert tsviz("record", "--workload", workload, *("--pages", "65"), *perturb, "--out", out).code == 0
    assert tsviz("verify", out).code == 0
    query = (
        "select min(a.round) r from rounds a join rounds b using (round)"
        " where a.rank = 0 and b.rank = 1 and a.digest_structural <> b.digest_structural"
    )
    assert tsviz("sql", out, query, "--format", "json").json()[0]["r"] >= 1


def test_sql_cannot_change_a_trace(tsviz: Tsviz, recorded: Path) -> None:
    """Writing, attaching, installing, reading files and setting options are refused; the bytes stay as they were."""
    before = fingerprint(recorded)
    for query in (
        "insert into rounds select * from rounds",
        "with x as (insert into rounds select * from rounds returning round) from x",
        "create table t as select 1",
        "copy (select 1) to 'x.csv'",
        "attach 'x.db'",
        "install httpfs",
        "select * from read_text('/etc/hostname')",
        "set memory_limit='9GB'",
        "pragma database_list",
    ):
        ended = tsviz("sql", recorded, query)
        assert ended.code == 1, query
        assert ended.err.startswith("error"), query
        assert ended.out == "", query
    assert fingerprint(recorded) == before


def test_a_path_that_is_taken_is_not_overwritten(tsviz: Tsviz, recorded: Path) -> None:
    """Recording into a bundle that exists is a usage error and leaves it as it is."""
    before = fingerprint(recorded)
    ended = tsviz("record", "--workload", "poisson:requests=1", "--out", recorded)
    assert ended.code == 2
    assert str(recorded) in ended.err
    assert fingerprint(recorded) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--workload", "nothing:here"), "mooncake"),
        (("--workload", "poisson", "--groups", "full:16:w=4"), "w=4"),
        (("--workload", "poisson", "--groups", "full:24"), "configuration"),
        (("--workload", "mooncake:no-such-file.jsonl"), "no-such-file.jsonl"),
        (("--workload", "poisson", "--ranks", "2", "--perturb", "5:page_fewer"), "5:page_fewer"),
        (("--workload", "poisson", "--ranks", "100000"), "'--ranks': 100000 is not in the range 1<=x<=1024"),
        (("--workload", "poisson", "--batch", "2000000000"), "is not in the range 1<=x<=1048576"),
        (("--workload", "poisson", "--prefix-page", "2000000000"), "is not in the range 1<=x<=1048576"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(
    tsviz: Tsviz, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    """A run that cannot start ends with code 2, names what is wrong and leaves no bundle behind."""
    ended = tsviz("record", *arguments, "--out", tmp_path / "x")
    assert ended.code == 2
    assert says in ended.err
    assert not (tmp_path / "x").exists()


def test_max_rounds_ends_a_run(tsviz: Tsviz, tmp_path: Path) -> None:
    """`--max-rounds` cuts the recording there, and says so."""
    out = tmp_path / "cut"
    ended = tsviz("record", "--workload", "poisson", "--max-rounds", "25", "--out", out, "--format", "json")
    assert [(r["rounds"], r["ended"]) for r in ended.json()] == [(25, "max_rounds")]
    assert tsviz("info", out, "--format", "json").json()["parts"][0]["rounds"] == 25


def test_record_and_info_count_the_same(tsviz: Tsviz, tmp_path: Path) -> None:
    """Rows of all plans, those too whose results were dropped since their request had ended, and the same seconds."""
    run = ("record", "--workload", "poisson:requests=12,rate=60,prompt_tokens=60,output_tokens=20", "--pages", "33",
           "--host-pages", "33", "--max-new", "undeclared", "--overlap", "1", "--format", "json")  # fmt: skip
    told = tsviz(*run, "--out", tmp_path / "b").json()
    (part,) = tsviz("info", tmp_path / "b", "--json").json()["parts"]
    (counted,) = tsviz("sql", tmp_path / "b", "SELECT count(*) AS n FROM operations", "--format", "json").json()
    (row,) = told if isinstance(told, list) else [told]
    assert row["rows"] == part["rows"] == counted["n"] > 100
    assert (row["seconds"], row["rounds"]) == (part["seconds"], part["rounds"])


def test_who_did_not_finish_is_said_in_a_line_a_part(tsviz: Tsviz, tmp_path: Path) -> None:
    """Of three requests one fails on its way and one is beyond D's bound of 19 pages of 16: a line a node, code 0."""
    workload = tmp_path / "three.jsonl"
    workload.write_text(
        '{"id": "a", "arrival_ms": 0, "prompt_tokens": 40, "output_tokens": 8}\n'
        '{"id": "big", "arrival_ms": 1, "prompt_tokens": 100, "output_tokens": 400}\n'
        '{"id": "b", "arrival_ms": 2, "prompt_tokens": 30, "output_tokens": 8}\n'
    )
    run = ("--scheduler", "twin", "--workload", f"plain:{workload}", "--pages", "20")
    ended = tsviz("record", *run, "--pd", "--fail-transfer", "b", "--out", tmp_path / "pair")
    refused = "1 refused: beyond the admission bound (first big: 500 tokens, the bound is 304)"
    assert ended.code == 0
    assert [line.partition("pair: ")[2] for line in ended.err.splitlines()[-2:]] == [
        f"{node}/0: 2 of 3 requests did not finish: 1 failed; {refused}" for node in "PD"
    ]


def test_a_run_that_stalls_says_who_was_left(tsviz: Tsviz, tmp_path: Path) -> None:
    """A request outgrows its pool, another one waits for its end: both are left when nothing can change any more."""
    workload = tmp_path / "long.jsonl"
    workload.write_text(
        '{"id": "a", "arrival_ms": 0, "prompt_tokens": 20, "output_tokens": 400}\n'
        '{"id": "z", "after": "a", "prompt_tokens": 20, "output_tokens": 4}\n'
    )
    pool = ("--scheduler", "twin", "--pages", "6", "--max-new", "undeclared")
    ended = tsviz("record", *pool, "--workload", f"plain:{workload}", "--out", tmp_path / "stalled")
    assert ended.code == 0
    assert "F/0: 2 of 2 requests did not finish: 1 live and 1 to come when it ended (stalled)" in ended.err


def test_a_run_in_which_all_finish_says_nothing_of_it(tsviz: Tsviz, tmp_path: Path) -> None:
    """Where every request finished there is no such line."""
    ended = tsviz("record", "--scheduler", "twin", "--workload", "poisson:requests=2", "--out", tmp_path / "fine")
    assert (ended.code, "did not finish" in ended.err) == (0, False)
