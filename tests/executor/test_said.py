"""What a device keeps of what requests said is what they got (`executor-rules.md` sections 1 and 4)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.rig import Life, live, request, with_device
from tsviz.engine.events import Event, Extended, Finished
from tsviz.engine.faults import ClientAbort
from tsviz.executor.sizing import PoolOptions

torch.set_num_threads(1)
REQUESTS = tuple(request(f"r{i}", (100 + i, 5 + i), says=12 + i % 3, at_ms=i) for i in range(8))
STOPS = frozenset({5, 9, 13, 17, 21, 33, 45, 61, 77, 89})
"""Ten tokens of 97: most requests say one of them before they have said all."""


class Told:
    """What the loop tells its scheduler: the tokens of every request, and how many the last call of it had."""

    def __init__(self) -> None:
        self.tokens: dict[str, list[int]] = {}
        self.columns: Counter[int] = Counter()

    def __call__(self, events: list[Event]) -> list[Event]:
        last: dict[str, int] = {}
        for event in events:
            if isinstance(event, Extended) and event.tokens:
                self.tokens.setdefault(event.request_id, []).extend(event.tokens)
                last[event.request_id] = len(event.tokens)
            elif isinstance(event, Finished) and self.tokens[event.request_id][-1] in STOPS:
                self.columns[last[event.request_id]] += 1
        return events


def life(depth: int, width: int, stops: frozenset[int]) -> Life:
    """Eight requests; a wide window's candidates are the model's own, so that all are accepted."""
    pool = PoolOptions(mixed=True, overlap_schedule_depth=depth, decode_input_tokens=width)
    drafts = 2 if width > 1 else 0
    return with_device(Life(REQUESTS, "tiny", pool, 60, draft_layers=drafts), stop_tokens=stops)


@pytest.mark.parametrize("stops", [frozenset(), STOPS], ids=["to the end", "to a stop token"])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_what_was_said_is_what_the_scheduler_was_told(width: int, stops: frozenset[int]) -> None:
    """With no result in flight and with one, in windows of one to three tokens, wherever in a window an output ends."""
    kept = []
    for depth in (0, 1):
        told = Told()
        lived = live(life(depth, width, stops), twin, meddle=told)
        assert lived.said == told.tokens
        assert lived.equality.is_exact, lived.equality
        assert set(told.columns) == (set(range(1, width + 1)) if stops else set())
        kept.append(lived.said)
    assert kept[0] == kept[1]


def test_what_an_aborted_request_did_not_get_is_not_kept() -> None:
    """A client that goes away while a forward is out gets nothing of it."""
    aborts = tuple(ClientAbort(f"r{i}", (3 + i) * 1_000_000) for i in range(8))
    told = Told()
    lived = live(replace(life(1, 2, frozenset()), aborts=aborts), twin, meddle=told)
    assert lived.summary.aborted == 8
    assert lived.said == told.tokens
