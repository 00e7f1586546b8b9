"""S6: rounds under memory pressure (requests are retracted all the time), and the hybrid of four cache groups.

Under pressure the pool is two thirds of what the live requests would need, and budgets are undeclared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .measure import Line, interleave_each
from .recorded import real
from .s_loop import Load, Loop, Ran
from .schedulers import Measured, measured, rounds, twin
from .steady import HYBRID, PAGE_TOKENS, Steady, steady_options

_HYBRID_TOKENS = 4096


def figures() -> Iterator[Line]:
    """Yield the ratio twin / real of CPU time a round."""
    yield _retraction(64, 1024, 128, mixed=True)
    yield _retraction(64, 1024, 128, mixed=False)
    yield _retraction(40, 512, 256, mixed=True)
    for rows, count, pairs in ((16, 32, 6), (64, 16, 6), (256, 8, 4)):
        yield _hybrid(rows, count, pairs)
    yield _loop(
        "hybrid 4 groups, 2048 in, 128 out, mixed",
        Load(replace(steady_options(64, 1024 + 256, HYBRID), mixed=True), 96, 64, 2048, 128),
        0.4,
        3,
    )


def _retraction(live: int, prompt: int, output: int, *, mixed: bool) -> Line:
    pages = live * (prompt + output) // PAGE_TOKENS * 2 // 3
    options = replace(steady_options(live, 0), mixed=mixed, num_device_pages=pages + 1, max_scheduled_tokens=2048)
    load = Load(options, 400, live, prompt, output, declared=False, max_rounds=400)
    name = f"retraction, {pages} pages{', mixed' if mixed else ''}"
    return _loop(name, load, 0.2, 3)


def _loop(name: str, load: Load, budget: float, pairs: int) -> Line:
    shapes = set()

    def run(module: object) -> Ran:
        ran = Loop(module, load).run()
        shapes.add(ran.shape)
        return ran

    cpu, wall = interleave_each(
        lambda: run(real()),
        lambda: run(twin()),
        pairs,
        (lambda ran: ran.cpu_ns / ran.rounds, lambda ran: ran.wall_ns / ran.rounds),
    )
    if len(shapes) != 1:
        raise RuntimeError(f"S6 {name}: expected one course of both sides, found {sorted(shapes)}")
    count, rows, _, retracted, finished = shapes.pop()
    what = f"{count} rounds, {rows / count:.1f} rows each, {retracted} readmission rows, {finished} finished; "
    return Line("S6", name, cpu.ratio, "of the real round", budget, note=what + Measured(cpu, wall).note)


def _hybrid(rows: int, count: int, pairs: int) -> Line:
    growth = count * (pairs + 1) + 64
    options = steady_options(rows, growth, HYBRID, context_tokens=_HYBRID_TOKENS)
    base, other = (
        Steady(module, rows, growth, options=options, context_tokens=_HYBRID_TOKENS, staggered=True, declared=False)
        for module in (real(), twin())
    )
    base.rounds(PAGE_TOKENS), other.rounds(PAGE_TOKENS)
    found = measured(rounds(base, count), rounds(other, count), pairs)
    return Line("S6", f"hybrid 4 groups, {rows} rows, 4K", found.cpu.ratio, "of the real round", 0.4, note=found.note)
