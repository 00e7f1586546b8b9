"""`python -m bench [NAME...]`: measure the named figures (all without a name) and print them as a table."""

from __future__ import annotations

import argparse
import importlib
import os

from .calibration import calibration_ms
from .measure import Line

FIGURES = {
    "r1": "r1_loop_thread",
    "r1b": "r1b_closed_loop",
    "r2": "r2_size",
    "r3": "r3_proxy",
    "r4": "r4_prompts",
    "s1": "s1_decode",
    "s2": "s2_small",
    "s3": "s3_context",
    "s4": "s4_blocked",
    "s5": "s5_prefill",
    "s6": "s6_pressure",
    "s7": "s7_vllm",
    "s8": "s8_observer",
    "e1": "e1_live_recording",
    "e2": "e2_decode",
    "e3": "e3_gpu",
    "k1": "k1_snapshot",
    "p1": "p1_recorded",
    "p1-live": "p1_live",
    "p2": "p2_open",
    "p3": "p3_reexecution",
    "p4": "p4_hits",
    "p5": "p5_findings",
    "q1": "q1_sql",
    "u1": "u1_step",
    "u1-wide": "u1_wide",
    "u2": "u2_application",
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FIGURES)}; all if none is given")
    parser.add_argument("--pin", type=int, metavar="CPU", help="run on this CPU only (not for r1b and r3)")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in FIGURES]
    if unknown:
        parser.error(f"expected names of {', '.join(FIGURES)}, found {', '.join(unknown)}")
    os.environ.setdefault("SPDLOG_LEVEL", "off")
    if arguments.pin is not None:
        os.sched_setaffinity(0, {arguments.pin})
    print(f"calibration loop {calibration_ms():.2f} ms; ratios of interleaved pairs, medians")
    for name in arguments.names or FIGURES:
        for line in importlib.import_module(f"bench.{FIGURES[name]}").figures():
            print(_row(line), flush=True)


def _row(line: Line) -> str:
    sign = ">=" if line.at_least else "<="
    budget = "" if line.budget is None else f"{sign} {line.budget:g}"
    return f"{line.figure:4} {line.case:44} {line.value:9.3f} {line.unit:22} {budget:8} {line.verdict:7} {line.note}"


if __name__ == "__main__":
    main()
