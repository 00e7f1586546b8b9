"""Runs of a what-if with a recorder around the scheduler: `--out`, and `--show causes`, which asks two of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tsviz.adapters.tokenspeed import RULE_SET, engine_of, recording_module
from tsviz.engine.clock import VirtualClock
from tsviz.replay.lost.model import PHASES
from tsviz.replay.whatif.knobs import Change, changed_config
from tsviz.replay.whatif.run import check_config
from tsviz.trace.api_events import event_reader
from tsviz.trace.catalogue import DECISIONS, PLANS
from tsviz.trace.config import describe_config
from tsviz.trace.reader import Bundle, Part, open_bundle
from tsviz.trace.recorder import Recorder
from tsviz.trace.writer import BundleWriter
from tsviz.version import __version__

if TYPE_CHECKING:
    from tsviz.replay.lost.keys import LostKey
    from tsviz.replay.whatif.study import Outcome, Study


def record_run(ready: Study, changes: list[Change], bundle: Bundle, part: Part, scheduler: str, out: Path) -> Outcome:
    """Run with a recorder around the scheduler; the bundle's metadata says what it is a what-if of.

    A run of the twin holds its decisions. Raises RefusedConfig and BadKnob before anything is written.
    """
    module, clock = ready.module, VirtualClock(ready.source.origin_ns)
    level = DECISIONS if scheduler == "twin" else PLANS
    check_config(changed_config(part.config, changes, module), module)
    meta = {
        "tool": f"tsviz {__version__}", "command": ["tsviz", *sys.argv[1:]], "scheduler": scheduler,
        "workload": bundle.meta.get("workload", {}),
        "what_if": {"of": bundle.name, "part": f"{part.node}/{part.rank}", "changes": list(map(str, changes))},
    }  # fmt: skip
    writer = BundleWriter(out, meta=meta, tokens=part.token_mode)
    made: list[Recorder] = []

    def open_recorder(config: Any) -> Recorder:
        made.append(
            writer.recorder(
                node=part.node, rank=part.rank, config=describe_config(config), engine=engine_of(module),
                event_reader=event_reader(module), now_ns=clock.now_ns, clock="virtual", rule_set=RULE_SET, level=level,
            )
        )  # fmt: skip
        return made[-1]

    end: dict[str, Any] = {"error": "the run was not finished"}
    try:
        recorded = recording_module(module, open_recorder, observed=level == DECISIONS)
        outcome = ready.run(changes, module=recorded, clock=clock, observer=_Observer(made, writer))
        summary = outcome.run.summary
        ended = {"reason": summary.reason.value, "detail": summary.detail, "rounds": summary.rounds}
        end = {"parts": {f"{part.node}/{part.rank}": ended}, "error": None}
    finally:
        writer.close(end)
    return outcome


def cause_rows(ready: Study, changes: list[Change], bundle: Bundle, part: Part) -> tuple[Outcome, list[dict[str, Any]]]:
    """Run both sides in the twin and return what became of the changed one, and a row a span and cause of both.

    Times are summed over all requests, in ms; most time of either side first within a span. Raises as `record_run`.
    """
    with TemporaryDirectory(prefix="tsviz-whatif-") as folder:
        record_run(ready, [], bundle, part, "twin", Path(folder) / "baseline")
        outcome = record_run(ready, changes, bundle, part, "twin", Path(folder) / "what_if")
        before, after = (_fleet(Path(folder) / name) for name in ("baseline", "what_if"))
    rows = []
    for span in PHASES:
        causes = dict.fromkeys(cause for side in (before, after) for at, cause in side if at == span)
        for cause in sorted(causes, key=lambda c: -max(before.get((span, c), 0), after.get((span, c), 0))):
            left, right = before.get((span, cause), 0) / 1e6, after.get((span, cause), 0) / 1e6
            percent = round(100 * (right - left) / left, 1) if left else None
            rows.append(
                {"span": span, "cause": cause, "baseline_ms": left, "what_if_ms": right, "change_ms": right - left,
                 "change_percent": percent}
            )  # fmt: skip
    return outcome, rows


def _fleet(path: Path) -> dict[tuple[str, str], int]:
    """Return the time of all requests by span and cause, spans in their order."""
    from tsviz.replay.lost.blame import blame
    from tsviz.replay.lost.keys import FLEET, lost_keys
    from tsviz.replay.why.answer import facts_of

    keys: list[LostKey] = lost_keys(blame(facts_of(open_bundle(path).parts[0], None)))
    return {
        (phase.phase, cause.cause): cause.time_ns
        for key in keys if key.view == FLEET for phase in key.phases for cause in phase.causes
    }  # fmt: skip


class _Observer:
    """Passes on what the loop tells to the recorder, which exists once its scheduler does.

    Where rounds come faster than they can be written the run waits: time is virtual.
    """

    def __init__(self, recorders: list[Recorder], writer: BundleWriter) -> None:
        self._recorders, self._writer = recorders, writer

    def arrivals(self, arrivals: Mapping[str, Any]) -> None:
        """Arrivals of the next submit call."""
        self._recorders[-1].arrivals(arrivals)

    def forward(self, start_ns: int, end_ns: int) -> None:
        """Device interval of the last plan's batch."""
        self._recorders[-1].forward(start_ns, end_ns)
        self._writer.catch_up()
