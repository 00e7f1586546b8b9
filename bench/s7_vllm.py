"""S7: a decode round of vLLM's V1 scheduler as a multiple of the twin's, the same rows, contexts and page.

vLLM has an environment of its own: `TSVIZ_VLLM_PYTHON` names its Python, `PYTHONPATH` for it goes through
`TSVIZ_VLLM_PATH`. Its stretches run in a child that waits while the twin's run, so that the two alternate. Per round:
the twin plans, reads the scalar vectors, makes events and advances; vLLM schedules and updates (its output object is
made outside). The budgets of requests are undeclared, as vLLM's are.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from .measure import Line
from .schedulers import Took, measured, rounds, twin
from .steady import CONTEXT_TOKENS, PAGE_TOKENS, Steady, steady_options

_ROWS = (16, 64, 256)
_ROUNDS, _PAIRS = 32, 8
_GROWTH = _ROUNDS * (_PAIRS + 2) + 64


def figures() -> Iterator[Line]:
    """Yield vLLM / twin per number of rows; one line that says so where vLLM is not named."""
    python = os.environ.get("TSVIZ_VLLM_PYTHON")
    if python is None:
        yield Line("S7", "not measured: TSVIZ_VLLM_PYTHON is not set", float("nan"), "")
        return
    for rows in _ROWS:
        options = steady_options(rows, _GROWTH)
        side = Steady(twin(), rows, _GROWTH, options=options, staggered=True, declared=False)
        side.rounds(PAGE_TOKENS)
        with _child(python, rows) as child:
            found = measured(rounds(side, _ROUNDS), _stretch(child), _PAIRS)
        yield Line("S7", f"{rows} rows, 1K context, page 16", found.cpu.ratio, "times the twin", 4, True, found.note)


def _child(python: str, rows: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.environ.get("TSVIZ_VLLM_PATH", ""), "VLLM_LOGGING_LEVEL": "ERROR"}
    script = str(Path(__file__).with_name("s7_vllm_side.py"))
    child = subprocess.Popen(
        [python, script, str(rows), str(CONTEXT_TOKENS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    assert child.stdout is not None
    while (line := child.stdout.readline()) != "ready\n":
        if not line:
            raise RuntimeError(f"{python} {script} ended with code {child.wait()} before its first round")
    return child


def _stretch(child: subprocess.Popen[str]) -> Callable[[], Took]:
    def run() -> Took:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(f"{_ROUNDS}\n")
        child.stdin.flush()
        cpu, wall = child.stdout.readline().split()
        return Took(float(cpu), float(wall))

    return run
