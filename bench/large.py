"""Large traces to measure on: a steady decode of 64 rows in which requests come and go, recorded with the twin.

`python -m bench.large OUT --rounds 1000000` records one; it takes minutes. 66 chains of requests, each of which starts
when the one before it ended, keep 64 rows busy and some requests waiting. Budgets are undeclared and the pool is a
little too small for the longest contexts at once, so that now and then one is retracted. Identity tokens, level plans.
`--shape short` does the same with contexts of 2,300 tokens instead of 8,200: tables of 140 pages, not 510, which makes
a million rounds affordable to record and to index.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from random import Random
from typing import Any

from tsviz.adapters.tokenspeed import RULE_SET, engine_of, recording_module
from tsviz.engine.clock import VirtualClock
from tsviz.engine.configs import SchedulerOptions, parse_groups
from tsviz.engine.run import RunOptions, run_workload
from tsviz.engine.workloads.model import Span, Workload, WorkRequest
from tsviz.trace.api_events import event_reader
from tsviz.trace.config import describe_config
from tsviz.trace.recorder import Recorder
from tsviz.trace.writer import BundleWriter

from .runs import Observer

ROWS = 64
CHAINS = 66
# Tokens that one request says, and pages for 1.29 times what 64 requests at half their age hold.
SHAPES = {"long": ((4_000, 24_000), 42_000), "short": ((512, 4_000), 11_750)}
_PROMPT_TOKENS = (256, 2_048)
_SECOND_NS = 1_000_000_000


def large_options(shape: str = "long") -> SchedulerOptions:
    """Return the configuration: one full-history group of 16 tokens a page, 64 rows, prefill and decode mixed."""
    return SchedulerOptions(
        groups=parse_groups("full:16"), prefix_granularity=16, max_scheduled_tokens=2048, max_batch_size=ROWS,
        num_device_pages=SHAPES[shape][1], mixed=True,
    )  # fmt: skip


def large_workload(rounds: int, seed: int = 0, shape: str = "long") -> Workload:
    """Return chains of requests that say at least `rounds` tokens each; contexts of all ages are there at once."""
    random = Random(seed)
    low, high = SHAPES[shape][0]
    requests: list[WorkRequest] = []
    for chain in range(CHAINS):
        said, turn, before = 0, 0, None
        while said < rounds:
            number = len(requests)
            output = random.randint(low, high) if turn else random.randint(64, high)
            name = f"chain-{chain:02d}/{turn:04d}"
            requests.append(
                WorkRequest(
                    request_id=name,
                    prompt=(Span(2 * number, 0, random.randint(*_PROMPT_TOKENS)),),
                    output=(Span(2 * number + 1, 0, output),),
                    max_new_tokens=0,
                    arrival_ns=chain * _SECOND_NS // 4 if before is None else None,
                    after=before,
                    think_ns=0 if before is None else random.randint(0, _SECOND_NS),
                )
            )
            said, turn, before = said + output, turn + 1, name
    return Workload(tuple(requests), {"kind": "large", "seed": seed, "rounds": rounds, "shape": shape})


def record_large(path: Path, rounds: int, module: Any, *, compacted: bool = True, shape: str = "long") -> int:
    """Record `rounds` rounds into the new bundle `path`; returns how many rows were scheduled."""
    clock = VirtualClock()
    recorders: list[Recorder] = []
    writer = BundleWriter(path, meta={"tool": "bench.large"}, tokens="identity")

    def open_recorder(config: Any) -> Recorder:
        recorder = writer.recorder(
            node="F", rank=0, config=describe_config(config), engine=engine_of(module),
            event_reader=event_reader(module), now_ns=clock.now_ns, clock="virtual", rule_set=RULE_SET,
        )  # fmt: skip
        recorders.append(recorder)
        return recorder

    def keep_pace() -> bool:
        while recorders and recorders[0].waiting_entries() > 20_000:
            time.sleep(0.02)
        return False

    recorded = recording_module(module, open_recorder)
    run = RunOptions(max_rounds=rounds, stop=keep_pace)
    summary = run_workload(
        recorded,
        large_options(shape),
        large_workload(rounds, shape=shape),
        run,
        clock=clock,
        observer=Observer(recorders),
    )
    writer.close({"parts": {}, "error": None}, compacted=compacted)
    print(summary)
    return summary.scheduled_rows


def main() -> None:
    """Record one large trace and say how long it took."""
    parser = argparse.ArgumentParser(prog="python -m bench.large", description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=1_000_000)
    parser.add_argument("--hot", action="store_true", help="leave the tables as they are written while recording")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="long", help="how long contexts get")
    arguments = parser.parse_args()
    os.environ.setdefault("SPDLOG_LEVEL", "off")
    from tsviz.scheduler import compat

    began = time.monotonic()
    rows = record_large(arguments.out, arguments.rounds, compat, compacted=not arguments.hot, shape=arguments.shape)
    print(f"{arguments.out}: {arguments.rounds:,} rounds, {rows:,} rows in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
