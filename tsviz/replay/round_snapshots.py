"""Snapshots of rounds: everything that is recorded of one, put together from the tables of its part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tsviz.replay.decided.view import DecidedView
from tsviz.replay.recorded.snapshot import Pool, Preparing, Snapshot, TraceHead, Transfer
from tsviz.replay.recorded.source import Source
from tsviz.replay.rows.event_words import event_words

from .inside import Inside
from .request_lines import RequestLines


class RoundSnapshots:
    """Snapshots of one part, as long as it is read from `source`."""

    def __init__(
        self, config: Mapping[str, Any], source: Source, lines: RequestLines, decided: DecidedView | None,
        inside: Inside,
    ) -> None:  # fmt: skip
        """`config` is that of the part; `decided` adds reserves, `inside` what live tables held."""
        self._config, self._source, self._lines = config, source, lines
        self._decided, self._inside = decided, inside

    def at(
        self, head: TraceHead, number: int, index: int, selected: int | None, preparing: Preparing | None
    ) -> Snapshot:
        """Return the snapshot of a round, which is the part's `index`-th, with the tables of `selected`."""
        row = self._source.round_row(index)
        zeroed = self._source.zeroed(number)
        rows = self._source.rows(number)
        scheduled = {r.submission for r in rows}
        config = self._config
        return Snapshot(
            head=head,
            round=number,
            start_ns=row["start_ns"],
            budget_tokens=int(config["max_scheduled_tokens"]),
            scheduled_tokens=row["scheduled_tokens"],
            batch_slots=int(config["max_batch_size"]),
            rows=rows,
            requests=self._lines.of_round(number, scheduled),
            counts={
                "bootstrapping": row["bootstrapping_requests"],
                "waiting": row["waiting_requests"],
                "prefilling": row["prefilling_requests"],
                "decoding": row["decoding_requests"],
                "pd_transfer": row["pd_transfer_requests"],
            },
            retracted=row["retracted_requests"],
            transfers=self.transfers(number),
            pool=Pool(
                max(0, int(config["num_device_pages"]) - 1),
                row["empty_pages"],
                sum(map(len, zeroed.values())),
                self._inside.active_blocks(number),
            ),
            selected=selected,
            tables=() if selected is None else self._lines.tables(selected, number, zeroed),
            events=event_words(self._source.events(number)),
            decisions=self._decisions(number),
            reserve=None if selected is None or self._decided is None else self._decided.reserve(selected, number),
            preparing=preparing,
        )

    def _decisions(self, number: int) -> str:
        decided = self._decided
        return "none" if decided is None or number > decided.last_round else decided.source

    def transfers(self, number: int) -> tuple[Transfer, ...]:
        """Return the stores and loads of the plan of a round."""
        found: dict[int, Transfer] = {}
        for row in self._source.transfers(number):
            op_id, before = row["op_id"], found.get(row["op_id"])
            pages = 1 if before is None else before.pages + 1
            back = self._source.acknowledged(op_id) if before is None else before.acknowledged_round
            found[op_id] = Transfer(op_id, row["kind"], pages, row["source_pinned"], back)
        return tuple(found.values())

    def empty(self, head: TraceHead) -> Snapshot:
        """Return what is shown of a part without rounds."""
        config = self._config
        pages = max(0, int(config["num_device_pages"]) - 1)
        return Snapshot(
            head=head, round=0, start_ns=0, budget_tokens=int(config["max_scheduled_tokens"]), scheduled_tokens=0,
            batch_slots=int(config["max_batch_size"]), rows=(), requests=(), counts={}, retracted=0, transfers=(),
            pool=Pool(pages, pages, 0), selected=None, tables=(), events=(),
        )  # fmt: skip
