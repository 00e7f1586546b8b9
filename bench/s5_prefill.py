"""S5: prefill a token, the twin as part of the real package: long prompts, few tokens said, no sharing.

First in a pool that is large enough for all that is ever cached, then in one of eight prompts' size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .measure import Line, Paired, interleave_each
from .recorded import real
from .s_loop import Load, Loop, Ran
from .schedulers import twin
from .steady import PAGE_TOKENS, steady_options

_PAIRS = 9


def figures() -> Iterator[Line]:
    """Yield the ratio twin / real of CPU time a prompt token, rounds in all; its parts beside it."""
    for prompt_tokens, chunk_tokens, requests, turnover in (
        (4096, 8192, 32, False),
        (16384, 2048, 8, False),
        (4096, 8192, 64, True),
    ):
        pages = (8 if turnover else requests + 8) * (prompt_tokens // PAGE_TOKENS + 4)
        options = replace(steady_options(8, 0), max_scheduled_tokens=chunk_tokens, num_device_pages=pages + 1)
        load = Load(options, requests, 8, prompt_tokens, 4)
        how = ", every page evicts one" if turnover else ""
        yield from _lines(f"{prompt_tokens} tokens, chunk {chunk_tokens}{how}", load)


def _lines(name: str, load: Load) -> Iterator[Line]:
    total, wall, plan, submit = interleave_each(
        lambda: Loop(real(), load).run(),
        lambda: Loop(twin(), load).run(),
        _PAIRS,
        (_total, _wall, lambda ran: ran.plan_cpu_ns, lambda ran: ran.cpu_ns + ran.submit_cpu_ns),
    )
    tokens = load.requests * load.prompt_tokens
    yield Line("S5", name, total.ratio, "of real, a token", 0.7, note=f"{_each(total, tokens)}; wall {wall.ratio:.3f}")
    yield Line("S5", "  next_execution_plan alone", plan.ratio, "of real, a token", note=_each(plan, tokens))
    yield Line("S5", "  with submission", submit.ratio, "of real, a token", note=_each(submit, tokens))


def _total(ran: Ran) -> float:
    return ran.cpu_ns


def _wall(ran: Ran) -> float:
    return ran.wall_ns


def _each(pair: Paired, tokens: int) -> str:
    other = sorted(pair.other)[len(pair.other) // 2]
    return (
        f"{other / tokens:.0f} ns against {pair.base_median / tokens:.0f} ns a token, {pair.span}; "
        f"calibration {pair.calibration_ms:.2f} ms"
    )
