"""Whatever a scheduler is put through, its recording re-executes to the same plans, and holds all that they said."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.trace.lives import ROLES, Life, record
from tsviz.replay.reexecution.verify import verify
from tsviz.trace.reader import Part, open_bundle

SEEDS = range(100, 108)


def verified(real: ModuleType, bundle: Path) -> Part:
    """Verify a bundle of one part against a fresh real scheduler and return the part."""
    part = open_bundle(bundle).parts[0]
    found = verify(part, real)
    assert found.divergence is None
    assert found.verified_rounds == found.recorded_rounds == part.rows("rounds")
    assert found.calls == part.rows("calls")
    return part


@pytest.mark.parametrize("tokens", ["full", "identity"])
@pytest.mark.parametrize("role", ROLES)
def test_every_round_of_a_recorded_lifetime_is_made_again(
    real: ModuleType, tmp_path: Path, role: str, tokens: str
) -> None:
    """A random lifetime re-executes on a fresh scheduler with every digest and every outcome equal, in both modes."""
    for seed in SEEDS:
        life = record(real, tmp_path / str(seed), seed, role=role, tokens=tokens, compacted=seed % 2 == 0)
        part = verified(real, tmp_path / str(seed))
        assert part.last_round == life.rounds
        assert part.rows("rounds") == len(life.told)


def test_the_lifetimes_reach_what_they_are_for(real: ModuleType, tmp_path: Path) -> None:
    """The seeds raise in every kind of call, retract, replay, and move pages: or they would prove little."""
    raised: set[str] = set()
    rows = dict.fromkeys(("transfers", "storage_keys", "kv_events"), 0)
    kinds: set[str] = set()
    outcomes: set[str] = set()
    retracted = 0
    for role in ROLES:
        for seed in SEEDS:
            path = tmp_path / f"{role}{seed}"
            raised |= set(record(real, path, seed, role=role).raised)
            part = open_bundle(path).parts[0]
            rows = {name: count + part.rows(name) for name, count in rows.items()}
            kinds |= set(part.table("operations")["kind"].to_pylist()) | set(part.table("events")["kind"].to_pylist())
            retracted += sum(part.table("rounds")["retracted_requests"].to_pylist())
            outcomes |= set(part.table("calls")["outcome"].to_pylist())
    assert raised == {"submit", "plan", "advance", "storage", "foreign"}
    assert outcomes == {"ok", "RuntimeError", "ValueError"}
    assert all(rows.values()), rows
    assert retracted > 20
    assert kinds >= {
        "prefill", "decode", "remote_prefill", "remote_decode", "extend_result", "finish", "abort", "retract",
        "update_reserve", "write_back_done", "load_back_done", "bootstrapped", "failed", "succeeded",
        "remote_prefill_done",
    }  # fmt: skip


def rebuilt_tables(part: Part) -> dict[int, dict[tuple[int, int], dict[str, list[int]]]]:
    """Rebuild, by round, the tables of every scheduled row from `table_changes` alone, by (submission, slot)."""
    scheduled: dict[int, list[tuple[int, int]]] = {}
    for row in part.table("operations").to_pylist():
        scheduled.setdefault(row["round"], []).append((row["submission"], row["slot"]))
    changes: dict[int, list[dict[str, Any]]] = {}
    for row in part.table("table_changes").to_pylist():
        changes.setdefault(row["round"], []).append(row)
    tables: dict[int, dict[str, list[int]]] = {}
    rebuilt = {}
    for round_ in part.table("rounds")["round"].to_pylist():
        for change in changes.get(round_, []):
            groups = tables.setdefault(change["submission"], {})
            table = [] if change["fresh"] else list(groups.get(change["group"], []))
            first, pages = change["first_slot"], change["pages"]
            table[first : first + len(pages)] = pages
            groups[change["group"]] = table[: change["length_slots"]]
        rebuilt[round_] = {(s, slot): dict(tables.get(s, {})) for s, slot in scheduled.get(round_, [])}
    return rebuilt


def submission_of(part: Part) -> dict[tuple[int, str], int]:
    """Return which submission an id named in a round, from the rows themselves."""
    table = part.table("operations")
    columns = (table[name].to_pylist() for name in ("round", "request", "submission"))
    return {(round_, request): submission for round_, request, submission in zip(*columns, strict=True)}


@pytest.mark.parametrize("role", ROLES)
def test_tables_rows_and_lists_are_exactly_recoverable(real: ModuleType, tmp_path: Path, role: str) -> None:
    """What every plan said of tables, rows, zeroed pages and transfers comes back from the recorded differences."""
    compared = 0
    for seed in SEEDS:
        life: Life = record(real, tmp_path / str(seed), seed, role=role, compacted=seed % 2 == 1)
        part = open_bundle(tmp_path / str(seed)).parts[0]
        names, tables = submission_of(part), rebuilt_tables(part)
        columns = (
            "round",
            "kind",
            "request",
            "slot",
            "begin_tokens",
            "input_tokens",
            "replay_tokens",
            "prefill_tokens",
        )
        rows = by_round(part, "operations", columns)
        zeroed = by_round(part, "zeroed", ("round", "group", "page"))
        transfers = by_round(part, "transfers", ("round", "op_id", "kind", "group_index", "src_page", "dst_page"))
        for told in life.told:
            expected = {(names[told.round, name], slot): table for (name, slot), table in told.tables.items()}
            assert tables[told.round] == expected, f"seed {seed}, round {told.round}"
            assert rows.get(told.round, []) == told.rows
            assert zeroed.get(told.round, []) == told.zeroed
            kinds = [(op, "load_back" if load else "write_back", *rest) for op, load, *rest in told.transfers]
            assert transfers.get(told.round, []) == kinds
            compared += len(expected)
    assert compared >= 100


def by_round(part: Part, name: str, columns: tuple[str, ...]) -> dict[int, list[tuple[Any, ...]]]:
    """Return the rows of a table by round, as tuples of the columns behind `round`."""
    table = part.table(name)
    found: dict[int, list[tuple[Any, ...]]] = {}
    for round_, *rest in zip(*(table[column].to_pylist() for column in columns), strict=True):
        found.setdefault(round_, []).append(tuple(rest))
    return found
