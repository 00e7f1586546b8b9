"""A large part whose compact bases are not there yet: what its cold tables tell of one round at once.

The bases are built in a process of their own, which neither takes turns with the keys of whoever waits nor leaves its
memory behind. Until they are there, nothing is said of requests: not known is better than half known.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tsviz.replay.rows.lifetimes import Longs
from tsviz.trace.cold import ColdTables
from tsviz.trace.columns import Table
from tsviz.trace.reader import Part

from . import bases_tables as t
from .bases import open_bases
from .by_rounds import RawRows
from .lives import Lives, requests_of
from .snapshot import BlockTable, Preparing
from .source_bases import BasedTables
from .states import Absences


class PreparingTables(RawRows):
    """What can be told of single rounds while a process builds the bases; `ready` says when that is over."""

    def __init__(self, part: Part, store: ColdTables, bundle: Path) -> None:
        """Start the process. Raises `TraceError`, OSError."""
        super().__init__(part, store)
        requests = requests_of(part)
        requests.accepted = np.zeros(len(requests.names), np.bool_)
        self.life = Lives(
            requests, *(_empty(table) for table in (t.ROW_SPANS, t.RESULT_SPANS, t.FATES, t.TABLE_STARTS))
        )
        self.absent = Absences([])
        self._worker = Worker(part, bundle)

    @property
    def progress(self) -> Preparing:
        """How far the bases are."""
        return self._worker.progress

    def ready(self) -> BasedTables | None:
        """Return what to read from now on, once the bases are built; None until then."""
        if not self._worker.ended:
            return None
        bases = open_bases(self._part)
        if bases is None:
            self._worker.failed()
            return None
        return BasedTables(self._part, self._store, bases)

    def replayed(self) -> Longs:
        """Return no round: not known yet."""
        return np.zeros(0, np.int64)

    def acknowledged(self, op_id: int) -> int | None:  # noqa: ARG002 - as the protocol has it
        """Return None: not known yet."""
        return None

    def held(self, submissions: Longs, number: int) -> Sequence[tuple[int, ...]]:  # noqa: ARG002
        """Return nothing: no request is shown yet."""
        return [() for _ in submissions]

    def tables(
        self,
        submission: int,  # noqa: ARG002
        number: int,  # noqa: ARG002
        zeroed: dict[str, frozenset[int]],  # noqa: ARG002
    ) -> tuple[BlockTable, ...]:
        """Return no table: not known yet."""
        return ()


class Worker:
    """The process that builds bases, and the thread that listens to it."""

    def __init__(self, part: Part, bundle: Path) -> None:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(Path(p).absolute()) for p in sys.path if p)}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tsviz.replay.recorded.bases_worker", str(bundle), part.node, str(part.rank)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True,
            start_new_session=True,
        )  # fmt: skip
        self.progress = Preparing(0, sum(part.rows(name) for name in ("operations", "events")))
        self.ended = False
        threading.Thread(target=self._listen, name="tsviz-bases", daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        said = ""
        for line in self._process.stdout:
            done, _, said = line.strip().partition(" ")
            if done.isdigit():
                self.progress = Preparing(int(done), self.progress.of_rows)
        if self._process.wait() == 0:
            self.ended = True
        else:
            self.progress = Preparing(self.progress.done_rows, self.progress.of_rows, said or "the process ended")

    def failed(self) -> None:
        """Note that what the process left behind is not sound."""
        self.ended = False
        self.progress = Preparing(self.progress.done_rows, self.progress.of_rows, "what was built could not be read")


def _empty(table: Table) -> dict[str, npt.NDArray[Any]]:
    return {c.name: np.zeros(0, np.int64) for c in table.columns}
