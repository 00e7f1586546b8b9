"""Makes a run on the version of the real package in a directory: the text of a process of its own.

Like a script of `repro`, it is made of sources that need the package alone; what to run comes as JSON, and so does what
came of it.
"""

from __future__ import annotations

import inspect
from typing import Any

from tsviz.replay.repro import checks as repro_checks
from tsviz.replay.repro.calls import Calls
from tsviz.replay.repro.checks import line
from tsviz.replay.repro.data import Script
from tsviz.replay.repro.driver import Driver
from tsviz.replay.repro.watch import Watch, build_config, build_group, expand
from tsviz.replay.scenario.predicates import NAMED


def plan_digest(plan: Any) -> str:
    """Return a digest of one plan: rows, slots, tables, fresh pages and copies, as the API gives them."""
    import hashlib

    said: list[Any] = []
    for batch in (*plan.forward, getattr(plan, "remote_prefill", None), getattr(plan, "remote_decode", None)):
        if batch is None or not batch.request_ids:
            continue
        names = ("request_ids", "request_pool_indices", "input_lengths", "prefill_lengths", "extend_prefix_lens")
        said.append([list(getattr(batch, name)) for name in names])
        said.append({group: table.tolist() for group, table in sorted(batch.block_tables_arrays().items())})
    said.append({group: pages.tolist() for group, pages in sorted(plan.pages_to_zero_arrays().items())})
    copies = [[list(op.op_ids), [list(v) for v in op.src_pages], [list(v) for v in op.dst_pages]] for op in plan.cache]
    said.append(copies)
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]


def job_of(script: Script, finding: str | None, budget: int) -> dict[str, Any]:
    """Return what the process is told to do."""
    return {
        "settings": script.settings, "requests": script.requests, "lost": list(script.lost), "calls": script.calls,
        "rounds": script.rounds, "finding": finding, "budget": budget,
        "thresholds": {name: named.threshold for name, named in NAMED.items()},
    }  # fmt: skip


def runner_text() -> str:
    """Return the source of the process: `python TEXT PACKAGE_DIRECTORY JOB_FILE RESULT_FILE`."""
    judges = [getattr(repro_checks, name) for name in NAMED]
    used = [build_config, build_group, expand, Watch, Driver, Calls, line, plan_digest, *judges]
    return "\n\n\n".join([_HEAD, *(inspect.getsource(piece).rstrip() for piece in used), _MAIN])


_HEAD = """from __future__ import annotations

import json
import os
import sys
from collections import deque
from typing import Any

os.environ["SPDLOG_LEVEL"] = "off\""""

_MAIN = """def main(directory: str, job_file: str, result_file: str) -> None:
    sys.path.insert(0, directory)
    with open(job_file) as file:
        job = json.load(file)
    result = {"digests": [], "lines": [], "problem": "", "shows": [], "unknown": [], "error": ""}
    where = "import"
    try:
        import tokenspeed_scheduler as api

        if not os.path.abspath(api.__file__).startswith(os.path.abspath(directory) + os.sep):
            raise ImportError(f"found {api.__file__}, expected it in {directory}")
        where = "construction"
        if job["calls"] is None:
            loop = Driver(api, job["settings"], job["requests"], job["lost"])
        else:
            loop = Calls(api, job["settings"], job["calls"])
        result["unknown"] = loop.unknown
        rounds = []
        for number in range(1, job["rounds"] + 1):
            where = f"round {number}"
            rounds.append(loop.step())
            result["digests"].append(plan_digest(loop.plan))
            result["lines"].append(line(rounds[-1]))
        for name, threshold in job["thresholds"].items():
            sentence = globals()[name](rounds, threshold, job["budget"])
            result["shows"] += [name] if sentence else []
            result["problem"] = sentence if name == job["finding"] else result["problem"]
    except Exception as error:
        result["error"] = f"{where}: {type(error).__name__}: {error}"
    with open(result_file, "w") as file:
        json.dump(result, file)


main(*sys.argv[1:])
"""
