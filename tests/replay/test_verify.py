"""Verification names the round, the field, what was recorded and what came instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.trace.lives import record
from tsviz.replay.reexecution.verify import Verification, verify
from tsviz.trace.reader import open_bundle

SEED, ROUND = 101, 12


class Changed:
    """Something of the package with some attributes replaced."""

    def __init__(self, inner: Any, **attributes: Any) -> None:
        self._inner = inner
        self.__dict__.update(attributes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def perturbed(real: ModuleType, round_: int, change: Callable[[Any], Any]) -> SimpleNamespace:
    """Return the package with a scheduler whose plan of one round is replaced by `change(plan)`."""

    class Scheduler:
        def __init__(self, config: Any) -> None:
            self._inner, self._round = real.Scheduler(config), 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def next_execution_plan(self) -> Any:
            self._round += 1
            plan = self._inner.next_execution_plan()
            return change(plan) if self._round == round_ else plan

    names = {name: getattr(real, name) for name in dir(real) if not name.startswith("_")}
    return SimpleNamespace(**names | {"Scheduler": Scheduler})


def in_batch(**fields: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a change that replaces fields of the forward batch by functions of what they were."""

    def change(plan: Any) -> Any:
        batch = plan.forward[0]
        return Changed(plan, forward=[Changed(batch, **{n: f(getattr(batch, n)) for n, f in fields.items()})])

    return change


def first_plus_one(values: list[int]) -> list[int]:
    """Return a list whose first number is one higher."""
    return [values[0] + 1, *values[1:]]


def other_page(arrays: Callable[[], Any]) -> Callable[[], Any]:
    """Return block tables of which every first page is 63."""

    def tables() -> Any:
        made = {name: array.copy() for name, array in arrays().items()}
        for array in made.values():
            array[0, 0] = 63
        return made

    return tables


def recorded(real: ModuleType, path: Path) -> tuple[Any, int, dict[str, Any]]:
    """Record a lifetime; return its part, a round with a row in it, and its first row."""
    record(real, path, SEED)
    part = open_bundle(path).parts[0]
    rows = part.table("operations").to_pylist()
    row = next(row for row in rows if row["round"] >= ROUND and row["kind"] == "prefill")
    return part, row["round"], row


@pytest.mark.parametrize(
    ("field", "column"),
    [
        ("input_lengths", "input_tokens"),
        ("prefill_lengths", "prefill_tokens"),
        ("extend_prefix_lens", "begin_tokens"),
        ("extend_replay_lens", "replay_tokens"),
        ("request_pool_indices", "slot"),
    ],
)
def test_a_row_that_differs_is_named_by_column(real: ModuleType, tmp_path: Path, field: str, column: str) -> None:
    """A number of a row that is one higher in one round is named with both values, behind all rounds before it."""
    part, round_, row = recorded(real, tmp_path / "b")
    found = verify(part, perturbed(real, round_, in_batch(**{field: first_plus_one})))
    assert found.divergence is not None
    assert (found.divergence.round, found.divergence.field) == (round_, f"operations[0].{column}")
    assert (found.divergence.expected, found.divergence.got) == (str(row[column]), str(row[column] + 1))
    assert found.verified_rounds == round_ - 1
    assert not found.complete


def test_a_page_that_differs_is_named(real: ModuleType, tmp_path: Path) -> None:
    """A block table with another page is named as a table change."""
    part, round_, _ = recorded(real, tmp_path / "b")
    found = verify(part, perturbed(real, round_, in_batch(block_tables_arrays=other_page)))
    assert found.divergence is not None
    assert found.divergence.field == "table_changes[0].pages"
    assert found.divergence.got.startswith("[63")
    assert found.divergence.round == round_


def test_a_row_that_is_missing_is_named_by_count(real: ModuleType, tmp_path: Path) -> None:
    """An empty zero list where pages were zeroed is named by the number of rows."""
    part, _, _ = recorded(real, tmp_path / "b")
    zeroed = part.table("zeroed")["round"].to_pylist()
    round_ = zeroed[0]
    found = verify(part, perturbed(real, round_, lambda plan: Changed(plan, pages_to_zero_arrays=dict)))
    assert found.divergence is not None
    assert (found.divergence.round, found.divergence.field) == (round_, "zeroed (rows)")
    assert (found.divergence.expected, found.divergence.got) == (str(zeroed.count(round_)), "0")


def test_content_that_differs_is_named_as_content(real: ModuleType, tmp_path: Path) -> None:
    """A model input that differs leaves the structural digest equal and is named by the content digest."""
    part, round_, _ = recorded(real, tmp_path / "b")
    found = verify(part, perturbed(real, round_, in_batch(input_ids=first_plus_one)))
    assert found.divergence is not None
    assert found.divergence.field.startswith("rounds.digest_content")
    assert found.divergence.round == round_


def test_a_counter_that_differs_is_named(real: ModuleType, tmp_path: Path) -> None:
    """A scheduler that counts one empty page more is named by the counter's column."""
    part, _, _ = recorded(real, tmp_path / "b")

    class Scheduler(Changed):
        def __init__(self, config: Any) -> None:
            inner = real.Scheduler(config)
            super().__init__(inner, empty_lcm_blocks=lambda: inner.empty_lcm_blocks() + 1)

    names = {name: getattr(real, name) for name in dir(real) if not name.startswith("_")}
    found = verify(part, SimpleNamespace(**names | {"Scheduler": Scheduler}))
    assert found.divergence is not None
    assert (found.divergence.round, found.divergence.field) == (1, "rounds[0].empty_pages")
    assert int(found.divergence.got) == int(found.divergence.expected) + 1


def test_an_outcome_that_differs_is_named(real: ModuleType, tmp_path: Path) -> None:
    """A plan that raises where the recorded one did not is a divergence with the exception's words."""
    part, round_, _ = recorded(real, tmp_path / "b")

    def fail(_: Any) -> Any:
        raise RuntimeError("made up")

    found = verify(part, perturbed(real, round_, fail))
    assert found.divergence is not None
    assert found.divergence.field == "calls.plan.outcome"
    assert (found.divergence.expected, found.divergence.got) == ("ok", "RuntimeError (made up)")


def test_verification_may_stop_behind_a_round(real: ModuleType, tmp_path: Path) -> None:
    """`until` compares no round behind it; progress never says more than there is."""
    part, round_, _ = recorded(real, tmp_path / "b")
    told: list[tuple[int, int]] = []
    found: Verification = verify(part, real, until=round_, progress=lambda done, of: told.append((done, of)))
    assert (found.verified_rounds, found.divergence) == (round_, None)
    assert all(done <= of for done, of in told)
