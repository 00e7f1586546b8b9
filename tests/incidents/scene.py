"""A scenario on either implementation; on the twin its decisions, its invariants and its recording are looked at.

`Scene` is the conformance driver with eyes: the checks of `tells`, `waits`, `silent` and `answers` hold on the twin
and say nothing on the real package, which throws these values away.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from tests.conformance.notation import Drive, Group, Shown
from tsviz.adapters.tokenspeed import RULE_SET, engine_of, recording_module
from tsviz.query.catalog import Catalog
from tsviz.query.locked import Locked
from tsviz.scheduler import decisions as d
from tsviz.scheduler.invariants import check
from tsviz.scheduler.rules import RuleSet
from tsviz.trace.api_events import event_reader
from tsviz.trace.config import describe_config
from tsviz.trace.reader import open_bundle
from tsviz.trace.writer import BundleWriter

DOCUMENT = Path(__file__).parents[2] / "docs" / "incidents.md"


def queries() -> dict[str, str]:
    """The queries of `docs/incidents.md` by incident: the fenced block under its heading."""
    sections = DOCUMENT.read_text("utf-8").split("\n### ")[1:]
    return {section[:3]: section.split("```sql\n")[1].split("```")[0] for section in sections}


class Scene(Drive):
    """A driven scheduler; on the twin also what it decided since the last plan was asked for."""

    def __init__(
        self, module: ModuleType, groups: list[Group], folder: Path | None, *, safe: int = 4096, **options: Any
    ) -> None:
        """`folder`: where the twin is recorded; None is the real package. `safe`: the safe-step window, twin only."""
        self.told: list[d.Decision] = []
        self.verdicts: dict[str, d.Verdict] = {}
        self.rounds_planned = 0
        self._twin: Any = None
        self._folder = folder
        self._writer = None if folder is None else BundleWriter(folder, meta={})
        super().__init__(
            module if folder is None else self._watched(module, RuleSet(safe_step_tokens=safe)), groups, **options
        )

    def _watched(self, module: ModuleType, rules: RuleSet) -> Any:
        """The twin's namespace with a scheduler that is recorded and observed."""
        clock, writer = itertools.count(1_000, 7), self._writer
        assert writer is not None

        def build(config: Any, *, observer: d.Observer) -> Any:
            def hear(round_number: int, stop: int, decision: d.Decision) -> None:
                self._hear(decision)
                observer(round_number, stop, decision)

            self._twin = module.Scheduler(config, rules=rules, observer=hear)
            return self._twin

        def open_recorder(config: Any) -> Any:
            return writer.recorder(
                node="N", rank=0, config=describe_config(config), engine=engine_of(module),
                event_reader=event_reader(module), now_ns=lambda: next(clock), clock="virtual", rule_set=RULE_SET,
                level="decisions",
            )  # fmt: skip

        names = {name: getattr(module, name) for name in module.__all__} | {
            "Scheduler": build,
            "__name__": module.__name__,
        }
        return recording_module(SimpleNamespace(**names), open_recorder, observed=True)

    def _hear(self, decision: d.Decision) -> None:
        self.told.append(decision)
        if isinstance(decision, d.Verdict):
            self.verdicts[decision.request_id] = decision

    def plan(self) -> Shown:
        """The next plan, with every invariant of the twin checked behind it."""
        self.told.clear()
        self.rounds_planned += 1
        shown = super().plan()
        if self._twin is not None:
            check(self._twin.core)
        return shown

    def arrive(self, request_id: str, prompt: int | list[int], new: int = 0) -> None:
        """Submit a request whose peer is ready at once (roles P and D)."""
        self.submit(request_id, prompt, new)
        self.event("BootstrappedEvent", request_id)

    def tells(self, kind: type, /, **fields: Any) -> None:
        """A decision of this kind with these fields was taken in the last plan or behind it."""
        if self._twin is None:
            return
        told = [one for one in self.told if isinstance(one, kind)]
        same = [one for one in told if all(getattr(one, name) == value for name, value in fields.items())]
        assert same, f"no {kind.__name__} with {fields} among {told}"

    def silent(self, *kinds: type) -> None:
        """Nothing of these kinds was decided in the last plan or behind it."""
        told = [one for one in self.told if isinstance(one, kinds)]
        assert not told, told

    def waits(self, request_id: str, cause: str, holder: str = "", *, rule: str = "", op_id: int = -1) -> None:
        """The verdict on a request in the last plan."""
        if self._twin is not None:
            expected = d.Verdict(request_id, cause, holder, rule, op_id)
            assert self.verdicts[request_id] == expected, self.verdicts[request_id]

    def answers(self, incident: str, *rows: tuple[Any, ...]) -> None:
        """The document's query for an incident has these rows on the recording so far; nothing may follow."""
        if self._folder is None:
            return
        self.close()
        locked = Locked(Catalog([open_bundle(self._folder)]))
        try:
            found = [tuple(row.values()) for row in locked.query(queries()[incident])[0].to_pylist()]
        finally:
            locked.close()
        assert found == list(rows), f"{incident}: {found}"

    def close(self) -> None:
        """End the recording."""
        if self._writer is not None:
            self._writer.close(compacted=False)
