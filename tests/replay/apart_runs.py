"""Small scenarios that are known to end badly or well, and how they are recorded."""

from __future__ import annotations

from pathlib import Path

from tsviz.adapters.tokenspeed import RULE_SET, recording_module
from tsviz.engine.configs import GroupKind, GroupOptions, SchedulerOptions
from tsviz.engine.cost import DeviceCost
from tsviz.engine.simulated import SimulatedOptions
from tsviz.engine.workloads.model import Span, WorkRequest
from tsviz.replay.scenario.run import MemoryPart, record_bundle, run_in_memory
from tsviz.replay.scenario.scenario import Scenario
from tsviz.scheduler import compat as twin
from tsviz.trace.reader import Bundle, open_bundle

LOCK_ROUNDS = 140


def request(name: str, source: int, prompt: int, output: int, arrival_ns: int = 0) -> WorkRequest:
    """A request that shares nothing."""
    return WorkRequest(name, (Span(source, 0, prompt),), (Span(source, prompt, output),), 0, arrival_ns)


def scenario(requests: tuple[WorkRequest, ...], rounds: int, **config: object) -> Scenario:
    """Requests on eight pages of two tokens, two tokens a round, a host tier that is there but small."""
    options = SchedulerOptions(
        (GroupOptions(GroupKind.FULL, 2, "full"),), prefix_granularity=2, max_scheduled_tokens=2, max_batch_size=4,
        num_device_pages=9, num_host_pages=2, mixed=True,
    )  # fmt: skip
    device = SimulatedOptions(DeviceCost(1_000_000, 0, 1_000_000))
    made = Scenario(options, requests, device, rounds)
    return made.with_config(**config) if config else made


def locked() -> Scenario:
    """Two prompts of seven pages each that cannot stand next to the one page of a third: they evict one another.

    c decodes first, so that b, a and d are retracted behind it in turn; d, the smallest, then holds a page for good
    (scheduler-rules.md, sections 5.1 and 8.2: the largest prompt is the victim, a readmission goes before residents).
    """
    requests = (request("c", 1, 2, 8), request("b", 2, 14, 1), request("a", 3, 14, 1), request("d", 4, 3, 1))
    return scenario(requests, LOCK_ROUNDS)


def calm() -> Scenario:
    """Two requests that fit side by side."""
    return scenario((request("a", 1, 4, 2), request("b", 2, 4, 2)), 40)


def run(made: Scenario, module: object = twin) -> MemoryPart:
    """Run on the twin and return the tables."""
    return run_in_memory(made, module, recording_module)[0]


def record(made: Scenario, out: Path, module: object = twin, engine: str = "tsviz-twin") -> Bundle:
    """Record on a scheduler and open the bundle."""
    about = {"name": engine, "version": "0.1.24"}
    record_bundle(made, module, recording_module, out, engine=about, rule_set=RULE_SET, meta={"scheduler": engine})
    return open_bundle(out)
