"""Findings: what each check says of scenarios and shipped traces, and when it must keep quiet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from tests.conformance.notation import full, sliding
from tests.incidents.scene import Scene
from tsviz.query.problem import Kind, Problem, QueryError
from tsviz.replay.findings.model import Checked
from tsviz.replay.findings.reference import reference
from tsviz.replay.findings.scan import BY_NAME, CHECKS, check_kept, check_part, checks_of
from tsviz.replay.reexecution.index import build_index
from tsviz.replay.scenario.predicates import Finding
from tsviz.replay.slice import write_slice
from tsviz.replay.survey.ask import looked
from tsviz.replay.why.answer import facts_of
from tsviz.scheduler import compat
from tsviz.trace.errors import TraceError
from tsviz.trace.reader import Bundle, Part, open_bundle

ROOT = Path(__file__).parents[2]
TRACES = ROOT / "traces"

Opener = Callable[..., Scene]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Opener]:
    """Open a recorded scene of N usable blocks on the twin."""
    scenes: list[Scene] = []

    def open_scene(groups: list[Any], *, blocks: int, **options: Any) -> Scene:
        made = Scene(compat, groups, tmp_path / f"scene{len(scenes)}", page=4, pages=blocks + 1, **options)
        scenes.append(made)
        return made

    yield open_scene
    for made in scenes:
        made.close()


class Tampered:
    """A part some of whose tables are others."""

    def __init__(self, part: Part, **tables: pa.Table) -> None:
        self._part, self._tables = part, tables
        self.rank = part.rank

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)

    def table(self, name: str) -> pa.Table:
        """The other table, or the part's."""
        return self._tables.get(name, self._part.table(name))

    def batches(self, name: str) -> list[pa.RecordBatch]:
        """The other table, or the part's, in pieces."""
        return self.table(name).to_batches()

    def tables(self) -> dict[str, Any]:
        """All tables."""
        return {**self._part.tables(), **self._tables}


def bundle_of(s: Scene) -> Bundle:
    """End the recording and open it."""
    s.close()
    assert s._folder is not None
    return open_bundle(s._folder)


def check(bundle: Bundle, part: Any = None) -> dict[str, Checked]:
    """All checks of a recording with decisions, by name."""
    part = bundle.parts[0] if part is None else part
    return {one.check.name: one for one in check_part(bundle, part, facts_of(part, None))}


def found(checked: dict[str, Checked]) -> set[str]:
    """Names of what was found."""
    return {name for name, one in checked.items() if one.outcome == "found"}


def numbers(one: Checked) -> dict[str, int]:
    """The evidence of a finding."""
    assert isinstance(one.ended, Finding), one.sentence
    return one.ended.numbers


def changed(table: pa.Table, row: int, **values: Any) -> pa.Table:
    """The table with some values of one row changed."""
    rows = table.to_pylist()
    rows[row] = rows[row] | values
    return pa.Table.from_pylist(rows, schema=table.schema)


def test_the_document_is_generated_from_the_checks() -> None:
    """docs/findings.md is what the checks in code say."""
    assert (ROOT / "docs" / "findings.md").read_text("utf-8") == reference()


SHIPPED = {
    "mixed-undeclared-livelock": {"livelock", "retraction_storm", "repeated_retraction", "recompute_tax"},
    "head-of-line": {"head_of_line_hold"},
    "retract-and-grant": {"recompute_tax", "readmission_waits"},
    "readmission-seals": {"readmission_waits", "head_of_line"},
    "mixed-stall": {"stall", "never_fits"},
    "bounded-replay": set(),
    "prefill-decode-pair": {"failed_transfers"},
    "smollm2-live": {"repeated_retraction"},
}
"""What the stories of traces/incidents.json and live.json say, by the name of the finding."""


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_traces_show_their_story(shared_indexes: None, name: str) -> None:
    """Each shipped incident is among the findings of its trace, and no shipped trace breaks an invariant."""
    bundle = open_bundle(TRACES / name)
    for part in bundle.parts:
        checked = {one.check.name: one for one in check_part(bundle, part, facts_of(part, build_index(part)))}
        assert found(checked) >= SHIPPED[name]
        assert not any(one.check.breach for one in checked.values() if one.outcome == "found")
        if not SHIPPED[name]:
            assert not found(checked)


def test_the_live_lock_has_the_rounds_of_its_story(shared_indexes: None) -> None:
    """From round 2,522 on nobody gets further, and the positions say where to look."""
    bundle = open_bundle(TRACES / "mixed-undeclared-livelock")
    (one,) = check_part(bundle, bundle.parts[0], None, [BY_NAME["livelock"]])
    assert [str(position) for position in one.positions] == ["F/0:2522", "F/0:2800"]


def test_what_needs_decisions_is_not_checkable_without_them() -> None:
    """Without decisions no check that needs them says that nothing was found."""
    bundle = open_bundle(TRACES / "head-of-line")
    for one in check_part(bundle, bundle.parts[0], None):
        if one.check.needs == "decisions":
            assert one.outcome == "not_checkable"
            assert "tsviz index" in one.sentence
        elif one.check.name != "rank_divergence":
            assert one.outcome in ("found", "not_found")


def test_a_question_without_an_answer_ends_one_check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A check whose query runs out of memory is not checkable and tried again; the other checks are made."""
    bundle = open_bundle(TRACES / "head-of-line")
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path))

    def made() -> dict[str, str]:
        return {one.check.name: one.outcome for one in check_kept(bundle, bundle.parts[0], "none", lambda: None)}

    with monkeypatch.context() as without_memory:

        def ask(*_: Any) -> None:
            raise QueryError(Problem(Kind.MEMORY, "could not allocate"))

        without_memory.setattr("tsviz.replay.findings.recorded.ask", ask)
        before = made()
    assert before["recompute_tax"] == "not_checkable" and before["livelock"] == "not_found"
    assert made() == before | {"recompute_tax": "not_found", "low_hit_rate": "not_found"}


def test_dropped_rows_make_a_check_impossible() -> None:
    """Where rows were dropped while recording nothing is said to be ok."""
    bundle = open_bundle(TRACES / "head-of-line")
    part = bundle.parts[0]
    gap = {"round": 3, "last_round": 4, "table": "operations", "dropped_rows": 2, "reason": "queue full"}
    gaps = pa.Table.from_pylist([gap], schema=part.table("gaps").schema)
    checked = check_part(bundle, Tampered(part, gaps=gaps), None)  # type: ignore[arg-type]
    assert {one.outcome for one in checked if one.check.name != "rank_divergence"} == {"not_checkable"}


def test_i43_waiting_for_peers_is_no_stall(scene: Opener) -> None:
    """I43: in 50 empty rounds A and B are with their peer, whose answer would change the plan: nothing is found."""
    s = scene([full(4)], blocks=10, budget=16, role="P")
    for name in "ABC":
        s.arrive(name, 16, 1)
    s.plan()
    for name in "AB":
        s.result(name, 7)
        s.plan()
    assert s.rounds(50) == [""] * 50
    assert found(check(bundle_of(s))) == set()


def test_a_peer_that_never_answers_is_found(scene: Opener) -> None:
    """The same with 150 empty rounds: A's and B's answers are out, the older one since round 2."""
    s = scene([full(4)], blocks=10, budget=16, role="P")
    for name in "ABC":
        s.arrive(name, 16, 1)
    s.plan()
    for name in "AB":
        s.result(name, 7)
        s.plan()
    s.rounds(150)
    checked = check(bundle_of(s))
    assert found(checked) == {"acknowledgement_missing"}
    # Plans 1 to 153; A went out in plan 2.
    assert numbers(checked["acknowledgement_missing"])["oldest_rounds"] == 151


def test_a_copy_that_is_never_acknowledged_is_found(scene: Opener) -> None:
    """I46 with 120 rounds: the store of A's pages is out, and that it is out keeps `stall` quiet."""
    s = scene([full(4)], blocks=8, num_host_pages=20)
    s.submit("A", 16)
    s.round()
    s.finish("A")
    s.submit("B", 8)
    s.rounds(2)
    s.stored(1)
    s.rounds(5)
    s.submit("C", 4)
    s.rounds(120)
    checked = check(bundle_of(s))
    assert {"acknowledgement_missing"} <= found(checked)
    assert "stall" not in found(checked)
    assert numbers(checked["acknowledgement_missing"])["outstanding"] == 1


def test_residents_that_share_a_window_stall(scene: Opener) -> None:
    """Care point: A and B are exempt, each lacks a block, nothing is out: the plans are empty for ever."""
    s = scene([full(4), sliding(8, 4)], blocks=14)
    shared = list(range(8))
    s.submit("A", shared, 16)
    s.rounds(2)
    s.submit("B", [*shared, 91, 92, 93, 94], 8)
    s.rounds(14)
    checked = check(bundle_of(s))
    assert found(checked) == {"stall"}
    stall = checked["stall"].ended
    assert isinstance(stall, Finding)
    assert stall.requests == ("A", "B")


@pytest.mark.parametrize(("small", "expected"), [(6, {"starvation"}), (5, set())])
def test_i28_a_newcomer_that_is_overtaken_starves(scene: Opener, small: int, expected: set[str]) -> None:
    """I28: BIG is refused while six small ones are admitted; five are the threshold."""
    s = scene([full(4)], blocks=20, budget=16, enable_mixed_prefill_decode=True)
    s.submit("X", 32, 8)
    s.rounds(3)
    s.submit("BIG", 40, 8)
    for index in range(small):
        s.submit(f"s{index}", 8, 4)
        s.round()
        if index >= 2:
            s.finish(f"s{index - 2}")
    checked = check(bundle_of(s))
    assert found(checked) == expected
    if expected:
        assert numbers(checked["starvation"])["overtakes"] == 6


def test_headroom_that_nobody_uses_is_found(scene: Opener) -> None:
    """A declares 32 tokens and ends after 2: the prefill's token and one more; B was refused meanwhile."""
    s = scene([full(4)], blocks=12)
    s.submit("A", 16, 32)
    s.round()
    s.submit("B", 8, 8)
    s.round()
    s.finish("A")
    s.rounds(2)
    s.finish("B")
    checked = check(bundle_of(s))
    assert "over_reservation" in found(checked)
    # A held 32 and B 8 tokens of headroom; A used 2 of its and B 2.
    assert numbers(checked["over_reservation"]) == {"headroom_tokens": 40, "unused_tokens": 36, "refusals": 1}


def test_i17_a_burst_that_misses_its_shared_prefix(scene: Opener) -> None:
    """I17: outside mixed mode A's prefix is not published while prompts arrive, so B and C compute it again."""
    s = scene([full(4)], blocks=60, budget=16)
    shared = list(range(12))
    for index, name in enumerate("AB"):
        s.submit(name, [*shared, *range(100 + 4 * index, 104 + 4 * index)], 4)
    s.rounds(2)
    checked = check(bundle_of(s))
    assert "low_hit_rate" in found(checked)
    # B could have had A's 12 tokens, of its 16, and had none.
    assert numbers(checked["low_hit_rate"]) == {"hit_tokens": 0, "possible_tokens": 12, "prompt_tokens": 32}


def _decoding(scene: Opener) -> Bundle:
    """A and B (8 tokens) prefill in rounds 1 and decode in 2 and 3; then both end, and a plan is empty."""
    s = scene([full(4)], blocks=20)
    s.submit("A", 8)
    s.submit("B", 8)
    s.rounds(3)
    s.finish("A")
    s.finish("B")
    s.plan()
    return bundle_of(s)


def test_i38_a_decode_that_waits_for_prompts_is_found(scene: Opener) -> None:
    """I38: a prompt arrives in each of rounds 2 to 21 and A, prefilled in round 1, gets no row in those 20."""
    s = scene([full(4)], blocks=200, budget=16, slots=32)
    s.submit("A", 8, 64)
    s.round()
    for index in range(20):
        s.submit(f"q{index}", 16, 4)
        s.round()
    s.round()
    checked = check(bundle_of(s))
    one = checked["decodes_wait"]
    # q0 is prefilled in round 2 and waits from round 3 to 21: 19 rounds; q1 18, q2 17, q3 16, which is not more.
    assert numbers(one) == {"rounds": 20, "requests": 4}
    assert [str(position) for position in one.positions] == ["N/0:2", "N/0:21"]
    assert "'A' had no row in rounds 2 to 21 (20 rounds" in one.sentence
    assert "; mixed mode is off; 3 others longer than 16 rounds" in one.sentence


def test_a_transfer_that_failed_is_found_on_both_sides() -> None:
    """q4 was sent to the peer in round 8 of D and failed in front of round 14; on P it is told too."""
    bundle = open_bundle(TRACES / "prefill-decode-pair")
    by_part = {part.node: check_part(bundle, part, None, [BY_NAME["failed_transfers"]])[0] for part in bundle.parts}
    assert [str(position) for position in by_part["D"].positions] == ["D/0:14"]
    assert by_part["D"].sentence == "a transfer failed: 'q4' in front of round 14, 6 rounds after it was sent"
    assert by_part["P"].outcome == "found"


def test_what_can_never_be_scheduled_is_told_with_its_numbers(shared_indexes: None) -> None:
    """mixed-stall: decodes leave 4 of the 4 tokens to the prompt, and a decode takes 1."""
    bundle = open_bundle(TRACES / "mixed-stall")
    part = bundle.parts[0]
    (one,) = check_part(bundle, part, facts_of(part, build_index(part)), [BY_NAME["never_fits"]])
    assert one.sentence.endswith("holdback + decode_input_tokens > max_scheduled_tokens (4 + 1 > 4)")


def test_i26_a_request_above_the_bound_is_found(scene: Opener) -> None:
    """I26: prompt + max(new, width) of A is 60 above the 56 that 15 blocks hold with a step in flight; 52 + 4 fits."""
    s = scene([full(4)], blocks=15, width=4, overlap_schedule_depth=1)
    with pytest.raises(ValueError, match="exceeds"):
        s.submit("A", 56, 2)
    s.submit("B", 52, 2)
    s.round()
    one = check(bundle_of(s))["refused_submissions"]
    assert (numbers(one), [str(position) for position in one.positions]) == ({"requests": 1}, ["N/0:1"])
    told = "Scheduler: request token limit exceeds cache capacity"
    assert one.sentence == f"refused at submission: 'A' in front of round 1: {told}"


def test_how_near_a_check_came_is_told() -> None:
    """head-of-line: no plan breach, whose first one is a finding; nobody is retracted, 21 in 100 rounds are one."""
    bundle = open_bundle(TRACES / "head-of-line")
    names = ("plan_breach", "retraction_storm")
    said = [one.sentence for one in check_part(bundle, bundle.parts[0], None, [BY_NAME[name] for name in names])]
    assert said == ["none; the first is a finding", "none; a finding from 21 retractions in 100 rounds"]


def test_a_sound_recording_has_no_finding(scene: Opener) -> None:
    """Two requests that are served at once are no finding."""
    assert found(check(_decoding(scene))) == set()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"slot": 1}, "one_row_a_slot in round 1, slot 1: expected 1 row, found 2 rows"),
        ({"submission": 0, "request": "A"}, "one_row_a_request in round 1, request A: expected 1 row, found 2 rows"),
        ({"input_tokens": 100}, "token_budget in round 1, plan: expected at most 64, found 108"),
    ],
)
def test_a_broken_plan_is_found(scene: Opener, values: dict[str, Any], said: str) -> None:
    """A second row of a slot or request, or more tokens than the budget, is a breach with place and numbers."""
    bundle = _decoding(scene)
    part = bundle.parts[0]
    operations = changed(part.table("operations"), 1, **values)
    checked = check(bundle, Tampered(part, operations=operations))
    assert said in checked["plan_breach"].sentence


def test_a_cut_prefill_with_another_behind_it_is_found(scene: Opener) -> None:
    """Only the last prefill of a plan may be incomplete."""
    bundle = _decoding(scene)
    part = bundle.parts[0]
    operations = changed(part.table("operations"), 0, prefill_tokens=12)
    assert (
        "head_of_line in round 1, request A"
        in check(bundle, Tampered(part, operations=operations))["plan_breach"].sentence
    )


def test_a_page_that_two_requests_own_is_found(scene: Opener) -> None:
    """B's table is told to hold A's first page, which is fresh in that round."""
    bundle = _decoding(scene)
    part = bundle.parts[0]
    changes = part.table("table_changes").to_pylist()
    at = next(i for i, row in enumerate(changes) if row["request"] == "B")
    pages = [changes[0]["pages"][0], *changes[at]["pages"][1:]]
    tampered = Tampered(part, table_changes=changed(part.table("table_changes"), at, pages=pages))
    checked = check(bundle, tampered)
    assert checked["page_breach"].sentence.startswith(
        "page invariant broken 1 times; first page_owned_twice in round 1"
    )


def test_a_pool_that_does_not_add_up_is_found(scene: Opener) -> None:
    """In round 4 nobody is active; 19 of 20 available blocks with no operation out are a leak and a breach."""
    bundle = _decoding(scene)
    part = bundle.parts[0]
    pool = part.table("pool")
    rows = pool.to_pylist()
    assert (rows[-1]["round"], rows[-1]["active_blocks"], rows[-1]["available_blocks"]) == (4, 0, 20)
    checked = check(bundle, Tampered(part, pool=changed(pool, len(rows) - 1, available_blocks=19)))
    assert numbers(checked["leak"]) == {"blocks": 1, "total_blocks": 20}
    assert checked["page_breach"].outcome == "found"


def test_a_rank_that_makes_another_plan_is_found(scene: Opener) -> None:
    """Rank 1 has another digest in round 2: it is the first to part from rank 0, in that round."""
    bundle = _decoding(scene)
    part = bundle.parts[0]
    rounds = changed(part.table("rounds"), 1, digest_structural=7)
    second = Tampered(part, rounds=rounds)
    second.rank = 1
    pair = SimpleNamespace(parts=[part, second])
    (one,) = check_part(pair, part, None, [BY_NAME["rank_divergence"]])  # type: ignore[arg-type]
    assert numbers(one) == {"ranks": 1, "first_rank": 1, "equal_rounds": 1}
    assert [str(position) for position in one.positions] == ["N/0:2"]


def on_the_device(name: str, **tables: pa.Table) -> Checked:
    """How a check of a real device ends on the shipped live run with other tables."""
    bundle = open_bundle(TRACES / "smollm2-live")
    (one,) = check_part(bundle, Tampered(bundle.parts[0], **tables), None, [BY_NAME[name]])  # type: ignore[arg-type]
    return one


def table_of_live(name: str) -> pa.Table:
    """A table of the shipped live run."""
    return open_bundle(TRACES / "smollm2-live").parts[0].table(name)


def test_an_operation_that_waits_for_nothing_races() -> None:
    """A zeroing takes page 5's bytes while the layer of the round before that wrote them may still run."""
    ops, ranges = table_of_live("device_ops").to_pylist(), table_of_live("device_ranges").to_pylist()
    zero = next(op for op in ops if op["kind"] == "zero" and op["op"] > 200)
    layer = next(op for op in reversed(ops[: zero["op"]]) if op["kind"] == "layer")
    cleared = next(r for r in ranges if r["op"] == zero["op"])
    written = next(i for i, r in enumerate(ranges) if r["op"] == layer["op"] and r["writes"])
    ranges[written] |= {"begin_byte": cleared["begin_byte"], "end_byte": cleared["begin_byte"] + 16}
    ops[zero["op"]] |= {"waits": [], "seen": []}
    schemas = table_of_live("device_ops").schema, table_of_live("device_ranges").schema
    one = on_the_device(
        "device_race", device_ops=pa.Table.from_pylist(ops, schema=schemas[0]),
        device_ranges=pa.Table.from_pylist(ranges, schema=schemas[1]),
    )  # fmt: skip
    assert "layer -> zero" in one.sentence or f"zero (op {zero['op']:,}" in one.sentence
    assert f"(op {layer['op']:,}, round {layer['round']:,}, stream exec)" in one.sentence
    assert zero["round"] in (position.round for position in one.positions)


def test_an_unknown_stream_is_said_with_its_place() -> None:
    """Words of a trace are not believed: the error names the operation and what there is."""
    ops = changed(table_of_live("device_ops"), 3, stream="elsewhere")
    with pytest.raises(TraceError, match=r"device_ops, op 3, stream: expected default, exec.*found 'elsewhere'"):
        on_the_device("device_race", device_ops=ops)


def test_operations_out_of_order_are_refused() -> None:
    """A number that comes again, and a range of an operation that was before, would hide what races."""
    ops, ranges = table_of_live("device_ops"), table_of_live("device_ranges")
    with pytest.raises(TraceError, match=r"device_ops, op: expected a number above 2, found 2"):
        on_the_device("device_race", device_ops=changed(ops, 3, op=2))
    with pytest.raises(TraceError, match=r"device_ranges, op: expected \d+, or one behind it, found -1"):
        on_the_device("device_race", device_ranges=changed(ranges, 3, op=-1))
    with pytest.raises(TraceError, match=r"a first byte and one not before it, found bytes 9 to 8"):
        on_the_device("device_race", device_ranges=changed(ranges, 3, begin_byte=9, end_byte=8))


def test_a_device_whose_host_saw_nothing_end_is_not_checked_for_ever() -> None:
    """Six thousand operations on three streams, of which nobody saw one end, are more than are compared."""
    ops = table_of_live("device_ops").to_pylist()
    many = [ops[i % 3] | {"op": i, "stream": ("exec", "load", "write")[i % 3], "waits": [], "seen": []}
            for i in range(6000)]  # fmt: skip
    one = on_the_device(
        "device_race", device_ops=pa.Table.from_pylist(many, schema=table_of_live("device_ops").schema),
        device_ranges=table_of_live("device_ranges").slice(0, 0),
    )  # fmt: skip
    assert one.outcome == "not_checkable"
    assert one.sentence.startswith("op 5,000, round ") and "at most 5,000 operations" in one.sentence


def test_logits_that_are_no_numbers_are_found() -> None:
    """One row of a forward that is broken names its request, its round and what the device had of it."""
    rows = table_of_live("forward_rows")
    row = rows.to_pylist()[7]
    one = on_the_device("broken_rows", forward_rows=changed(rows, 7, broken=True))
    assert numbers(one) == {"rows": 1, "requests": 1}
    assert f"{row['request']!r}, first in round {row['round']:,} with {row['valid_tokens']:,} tokens" in one.sentence


def test_a_device_that_counts_otherwise_is_found() -> None:
    """A decode that has a token less on the device than the one before it had and accepted."""
    rows = table_of_live("forward_rows")
    last = rows.num_rows - 1
    row = rows.to_pylist()[last]
    one = on_the_device("lost_tokens", forward_rows=changed(rows, last, valid_tokens=row["valid_tokens"] - 1))
    assert numbers(one) == {"decodes": 1, "requests": 1}
    assert f"{row['valid_tokens']:,} tokens behind round" in one.sentence
    assert f"{row['valid_tokens'] - 1:,} in front of round {row['round']:,}" in one.sentence


def test_a_copy_that_ends_behind_its_acknowledgement_is_found() -> None:
    """A store that the device ended a millisecond behind the call that told the scheduler so."""
    ops, events = table_of_live("device_ops"), table_of_live("events").to_pylist()
    place, store = next((i, op) for i, op in enumerate(ops.to_pylist()) if op["kind"].startswith("store"))
    told = next(e for e in events if e["kind"] == "write_back_done" and e["op_id"] == store["op_id"])
    call = next(c for c in table_of_live("calls").to_pylist() if c["seq"] == told["call_seq"])
    one = on_the_device("early_acknowledgement", device_ops=changed(ops, place, end_ns=call["time_ns"] + 1_000_000))
    assert numbers(one) == {"copies": 1}
    assert f"in front of round {told['round']:,}, 1.000 ms before its {store['kind']} had ended" in one.sentence


def test_a_page_that_changed_without_a_writer_is_found() -> None:
    """An operation found another checksum than the one before it had left."""
    ops = table_of_live("device_ops").to_pylist()
    left, then = ops[10], ops[40]
    same = {"space": "device", "group": "full", "page": 3, "layer": 0, "request": None, "item": None}
    rows = [
        same | {"round": left["round"], "op": left["op"], "writes": True, "crc32": 17},
        same | {"round": then["round"], "op": then["op"], "writes": False, "crc32": 18},
    ]
    crcs = pa.Table.from_pylist(rows, schema=table_of_live("page_crcs").schema)
    one = on_the_device("changed_pages", page_crcs=crcs)
    assert numbers(one) == {"blocks": 1}
    assert one.sentence.startswith(f"page 3 of 'full' (device) changed behind {left['kind']} of round {left['round']}")


def test_forwards_that_wait_for_copies_are_found() -> None:
    """A zeroing that waits for a store as long as all forwards took: half of the device's time is lost."""
    ops = table_of_live("device_ops").to_pylist()
    took = sum(f["end_ns"] - f["start_ns"] for f in table_of_live("forwards").to_pylist())
    zero = next(op for op in ops if op["kind"] == "zero" and ops[op["op"] - 1]["kind"].startswith("store"))
    store, ready = ops[zero["op"] - 1], max(op["end_ns"] for op in ops[: zero["op"] - 1])
    ready = max(ready, zero["submit_ns"])
    ops[store["op"]] |= {"end_ns": ready + took}
    ops[zero["op"]] |= {"start_ns": ready + took, "end_ns": ready + took, "waits": [store["op"]]}
    for op in ops[zero["op"] + 1 :]:
        op |= {"waits": []}
    one = on_the_device("copy_stalls", device_ops=pa.Table.from_pylist(ops, schema=table_of_live("device_ops").schema))
    assert numbers(one) == {"stalled_ns": took, "forward_ns": took}
    assert f"(100.0 %): zero for {store['kind']} {took / 1e6:,.2f} ms (1 time)" in one.sentence


def test_a_simulated_device_is_not_asked_for_its_order() -> None:
    """Checks of a real device are made of a trace that has one, and of no other."""
    live, simulated = (open_bundle(TRACES / name).parts[0] for name in ("smollm2-live", "head-of-line"))
    more = {check.name for check in checks_of(live)} - {check.name for check in checks_of(simulated)}
    assert all(looked(on_the_device(name)).of_device for name in more)
    assert not looked(on_the_device("stall")).of_device
    assert more == {"device_race", "broken_rows", "lost_tokens", "early_acknowledgement", "copy_stalls"}


def test_every_check_is_found_somewhere() -> None:
    """Each check has a test of this module in which it finds something."""
    text = Path(__file__).read_text("utf-8").replace('one.check.name != "rank_divergence"', "")
    assert [one.name for one in CHECKS if f'"{one.name}"' not in text] == []


def test_one_rank_parts_from_nobody() -> None:
    """Of a trace with one rank the check does not apply, which is neither unknown nor a clean bill."""
    bundle = open_bundle(TRACES / "mixed-stall")
    (one,) = check_part(bundle, bundle.parts[0], None, [BY_NAME["rank_divergence"]])
    assert (one.outcome, one.sentence) == ("not_applicable", "does not apply: the trace has one rank of F")


def test_a_slice_knows_by_its_decisions_who_had_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`new-1` comes in front of round 195 and runs in 249: of rounds 197 to 250 52 passed it over, with others behind.

    Without decisions nobody knows whether it had run before them.
    """
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))
    whole = open_bundle(TRACES / "readmission-seals")
    write_slice(whole, whole.parts[0], 197, 250, tmp_path / "sl")
    bundle = open_bundle(tmp_path / "sl")
    part, checks = bundle.parts[0], [BY_NAME["head_of_line"]]
    (blind,) = check_part(bundle, part, None, checks)
    assert blind.outcome == "not_checkable" and "'new-1' ran before round 197 is not in it" in blind.sentence
    (told,) = check_part(bundle, part, facts_of(part, build_index(part)), checks)
    assert told.outcome == "found" and "'new-1' waited first" in told.sentence
