"""A program that records a scheduler until it is killed.

`python -m tests.trace.recording_process BUNDLE LOG [RING [LEVEL]]`. RING: so many seconds are kept, by a keeper beside
it. LEVEL: what is recorded, `plans` if not said. Writes to LOG, a line a round, how many calls were made behind it and
when (monotonic seconds).
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path
from typing import Any

from tsviz.adapters.tokenspeed import engine_of, load_real, recording_module
from tsviz.trace.apart import ApartWriter
from tsviz.trace.api_events import event_reader
from tsviz.trace.catalogue import PLANS
from tsviz.trace.config import describe_config
from tsviz.trace.ring import SUFFIX, RingOptions, start_keeper
from tsviz.trace.writer import BundleWriter


def small_config(real: Any) -> Any:
    """Return a config for a handful of requests."""
    config = real.SchedulerConfig()
    config.prefix_granularity, config.max_scheduled_tokens, config.max_batch_size = 4, 16, 8
    config.num_device_pages = 129
    config.cache_groups = [real.CacheGroupConfig("full", 4, 128)]
    return config


def serve(module: Any, scheduler: Any, log: Any, pause: float, rounds: int | None = None) -> None:
    """Serve requests of 9 + n % 5 tokens for 6 tokens each, four at a time, for ever or for some rounds."""
    live: dict[str, int] = {}
    names, calls = itertools.count(), 0
    for round_ in itertools.count(1):
        while len(live) < 4:
            spec, number = module.RequestSpec(), next(names)
            spec.request_id, spec.tokens = f"r{number}", [number % 7] * (9 + number % 5)
            scheduler.submit_requests([spec])
            live[spec.request_id] = 0
            calls += 1
        plan = scheduler.next_execution_plan()
        batch = plan.forward[0]
        execution = module.ExecutionEvent()
        for row, name in enumerate(batch.request_ids):
            event = module.ForwardEvent.ExtendResult()
            event.request_id = name
            done = row >= batch.num_extends() or (
                batch.extend_prefix_lens[row] + batch.input_lengths[row] == batch.prefill_lengths[row]
            )
            if done:
                event.tokens = [live[name]]
                live[name] += 1
            execution.add_event(event)
            if live[name] == 6:
                finish = module.ForwardEvent.Finish()
                finish.request_id = name
                execution.add_event(finish)
                del live[name]
        scheduler.advance(execution)
        calls += 2
        log.write(f"{calls} {time.monotonic():.6f}\n")
        log.flush()
        if round_ == rounds:
            return
        time.sleep(pause)


def recorded(real: Any, writer: BundleWriter | ApartWriter, level: str = PLANS) -> tuple[Any, Any]:
    """Return the recorded namespace and a scheduler in it."""
    module = recording_module(
        real,
        lambda config: writer.recorder(
            node="N", rank=0, config=describe_config(config), engine=engine_of(real), event_reader=event_reader(real),
            now_ns=time.monotonic_ns, clock="monotonic", rule_set="0.1.24", level=level,
        ),
    )  # fmt: skip
    return module, module.Scheduler(small_config(real))


if __name__ == "__main__":
    kept = RingOptions(float(sys.argv[3]), None, ("crash",)) if len(sys.argv) > 3 else None
    target = BundleWriter(Path(sys.argv[1] + (SUFFIX if kept else "")), meta={}, tokens="identity", ring=kept)
    if kept is not None:
        start_keeper(target.path)
    with Path(sys.argv[2]).open("w") as out:
        serve(*recorded(load_real(), target, (sys.argv[4:] or [PLANS])[0]), out, 0.002)
