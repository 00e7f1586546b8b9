"""A view whose every number follows from a formula, so that tests know what must be on the screen.

Request i (submission i) is submitted in round 1 + 3 i with a prompt of 700 + 60 i tokens, is prefilled in chunks of 256
from the round after, then decodes one token a round, 40 tokens in all. Every fifth is retracted for 6 rounds when it
has 20 tokens. A page holds 16 tokens; slot k of request i is page 1 + (97 i + k) mod 1024.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from tsviz.replay.recorded.snapshot import (
    STATES,
    BlockTable,
    Pool,
    Preparing,
    RequestLine,
    Row,
    Snapshot,
    TraceHead,
    Transfer,
)

CHUNK, PAGE, OUT, PAGES = 256, 16, 40, 1024
RETRACT_AT, RETRACTED_FOR = 20, 6

HEAD = TraceHead(
    name="mooncake-conversation-8x",
    node="P",
    rank=0,
    role="fused",
    engine="tokenspeed-scheduler",
    engine_version="0.1.24",
    rule_set="0.1.24",
    rounds=300,
    requests=60,
    live=False,
    clock="virtual",
    gaps=0,
    parts=("P/0",),
)


@dataclass(frozen=True)
class Life:
    """Where one request of the formula is in one round."""

    state: str
    computed: int
    generated: int
    begin: int | None
    tokens: int
    retractions: int


def prompt_of(i: int) -> int:
    """Prompt tokens of request i."""
    return 700 + 60 * i


def life(i: int, round_: int) -> Life | None:
    """Return the life of request i in a round, None before it is submitted."""
    age = round_ - (1 + 3 * i)
    if age < 0:
        return None
    if age == 0:
        return Life("waiting", 0, 0, None, 0, 0)
    prompt, chunks = prompt_of(i), -(-prompt_of(i) // CHUNK)
    if age <= chunks:
        begin = (age - 1) * CHUNK
        tokens = min(CHUNK, prompt - begin)
        return Life("prefilling" if age < chunks else "prefill_done", begin + tokens, 0, begin, tokens, 0)
    step = age - chunks
    retracted = 0
    if i % 5 == 4 and step > RETRACT_AT:
        retracted = 1
        if step <= RETRACT_AT + RETRACTED_FOR:
            return Life("retracted", 0, RETRACT_AT, None, 0, 1)
        step -= RETRACTED_FOR
    if step > OUT:
        return Life("finished", prompt + OUT, OUT, None, 0, retracted)
    return Life("decoding", prompt + step, step, None, 1, retracted)


def pages_of(i: int, computed: int) -> tuple[int, ...]:
    """Return the block table of request i with so many computed tokens."""
    return tuple(1 + (97 * i + k) % PAGES for k in range(-(-computed // PAGE)))


class FakeView:
    """A `RecordedView` by formula; counts its calls, and can be made to wait or to fail."""

    def __init__(self, head: TraceHead = HEAD) -> None:
        self.head = head
        self.calls: list[tuple[int, int | None]] = []
        self.gate: threading.Event | None = None
        self.broken: dict[int, Exception] = {}

    def snapshot(self, round_: int, selected: int | None = None) -> Snapshot:
        """Return the snapshot of a round."""
        self.calls.append((round_, selected))
        if self.gate is not None:
            self.gate.wait(20)
        if round_ in self.broken:
            raise self.broken[round_]
        round_ = min(max(round_, 1), self.head.rounds)
        return by_formula(self.head, round_, selected)

    def next_mark(self, round_: int, submission: int | None, step: int) -> int | None:
        """Return the next round in which a submission was scheduled or changed state."""
        if submission is None:
            return None
        round_ += step
        while 1 <= round_ <= self.head.rounds:
            now, then = life(submission, round_), life(submission, round_ - 1)
            if now is not None and (now.tokens or then is None or now.state != then.state):
                return round_
            round_ += step
        return None


class FullView(FakeView):
    """A view that offers everything a view may offer."""

    def pool_history(self, first_round: int, last_round: int, buckets: int) -> tuple[int, ...]:
        """Return a pool that fills up over the trace and is full in the last tenth."""
        rounds = last_round - first_round + 1
        last_of = [first_round + (b + 1) * rounds // buckets - 1 for b in range(buckets)]
        return tuple(min(PAGES, r * PAGES * 10 // (self.head.rounds * 9)) for r in last_of)

    def find_request(self, request: str) -> int | None:
        """Return the submission of `r<number>`."""
        number = request.removeprefix("r")
        return int(number) if number.isdigit() and int(number) < self.head.requests else None


class IndexedLater(FakeView):
    """Knows nothing of requests while `preparing` is set."""

    preparing: Preparing | None = Preparing(1, 4)

    def snapshot(self, round_: int, selected: int | None = None) -> Snapshot:
        """Return the snapshot of a round, without its requests until they are known."""
        shown = super().snapshot(round_, selected)
        if self.preparing is None:
            return shown
        return replace(shown, requests=(), tables=(), preparing=self.preparing)


class StillView(FakeView):
    """Shows one hand-made snapshot in every round."""

    def __init__(self, still: Snapshot) -> None:
        super().__init__(still.head)
        self.still = still

    def snapshot(self, round_: int, selected: int | None = None) -> Snapshot:
        """Return the snapshot, as if it were that of any round."""
        self.calls.append((round_, selected))
        round_ = min(max(round_, 1), self.head.rounds)
        return replace(self.still, round=round_, selected=self.still.selected if selected is None else selected)


def by_formula(head: TraceHead, round_: int, selected: int | None) -> Snapshot:
    """Return a whole snapshot."""
    rows: list[Row] = []
    lines: list[RequestLine] = []
    counts = dict.fromkeys(STATES, 0)
    for i in range(head.requests):
        now = life(i, round_)
        if now is None:
            continue
        counts[now.state] += 1
        ended = now.state == "finished"
        before = life(i, round_ - 1)
        if ended and before is not None and before.state == "finished":
            continue
        held = 0 if ended or now.state in ("waiting", "retracted") else -(-now.computed // PAGE)
        lines.append(
            RequestLine(f"r{i}", i, now.state, now.computed, prompt_of(i), now.generated, OUT, held,
                        round_ - 1 - 3 * i, now.tokens > 0, now.retractions)
        )  # fmt: skip
        if now.tokens:
            kind = "decode" if now.begin is None else "prefill"
            replay = 32 if i == 7 and now.begin else 0
            rows.append(Row(kind, f"r{i}", i, i % 64, now.begin, now.tokens, replay, prompt_of(i)))
    rows.sort(key=lambda row: row.kind == "decode")
    occupied = min(sum(line.held_pages for line in lines), PAGES)
    events = [f"r{i} submitted, {prompt_of(i):,} prompt tokens" for i in range(head.requests) if 1 + 3 * i == round_]
    events += [f"r{line.submission} token {line.generated_tokens - 1}" for line in lines if line.generated_tokens > 1][
        :3
    ]
    transfers = (
        Transfer(round_, "write_back", 4, True, round_ + 2),
        Transfer(round_ + 1, "load_back", 12, None, None),
    )
    return Snapshot(
        head=head,
        round=round_,
        start_ns=round_ * 8_123_456,
        budget_tokens=2048,
        scheduled_tokens=sum(row.input_tokens for row in rows),
        batch_slots=64,
        rows=tuple(rows),
        requests=tuple(lines),
        counts=counts,
        retracted=counts["retracted"],
        transfers=transfers if round_ % 4 == 0 else (),
        pool=Pool(PAGES, PAGES - occupied, 16 if rows else 0),
        selected=selected,
        tables=() if selected is None else tables_of(selected, round_),
        events=tuple(events),
    )


def tables_of(i: int, round_: int) -> tuple[BlockTable, ...]:
    """Return the tables of request i: `full`, and `window` in which all but the last 8 slots are holes."""
    now, before = life(i, round_), life(i, round_ - 1)
    if now is None or now.state in ("waiting", "retracted", "finished"):
        return ()
    pages = pages_of(i, now.computed)
    old = () if before is None or before.state == "retracted" else pages_of(i, before.computed)
    new = frozenset(range(len(old), len(pages)))
    full = BlockTable("full", PAGE, pages, new, dict.fromkeys(new, 0), new)
    kept, was = max(len(pages) - 8, 0), max(len(old) - 8, 0)
    windowed = tuple(0 if k < kept else 2000 + page for k, page in enumerate(pages))
    dropped = {k: 2000 + pages[k] for k in range(was, min(kept, len(old)))}
    fresh = {k: 0 for k in new if k >= kept}
    window = BlockTable("window", PAGE, windowed, frozenset({*dropped, *fresh}), dropped | fresh, frozenset())
    return full, window
