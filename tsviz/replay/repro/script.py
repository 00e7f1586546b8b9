"""A standalone script that shows a finding on the real package alone (debugger.md, section 5).

The script is settings and requests as literals, a minimal loop, and a judge. It ends with exit code 1 while the finding
is there and with 0 when it is gone, as a bisection wants it. Strings of the trace stand in it as Python literals.
"""

from __future__ import annotations

import inspect
import pprint
import re
from dataclasses import dataclass
from typing import Any

from tsviz.replay.scenario.predicates import NAMED, Finding
from tsviz.replay.scenario.scenario import NotAScenario
from tsviz.trace.reader import Part

from . import checks as repro_checks
from .calls import Calls
from .checks import line
from .data import Script, closed_loop, first_difference, recorded_calls
from .driver import Driver
from .watch import Watch, build_config, build_group, expand

_WIDTH = 110
_SHOWN_ROUNDS = 60


@dataclass(frozen=True, slots=True)
class Repro:
    """A script: its text, whether it is a closed loop or a list of calls and why, and the finding that it shows."""

    text: str
    closed_loop: bool
    reason: str
    finding: Finding | None


def make_repro(part: Part, module: Any, *, name: str, round_: int | None = None) -> Repro:
    """Return a script for a part, up to `round_` or to where its finding shows.

    It is a closed loop if that makes the recorded plans on `module`, otherwise the recorded calls. Raises `TooLong` and
    `TraceError`.
    """
    finding = None if round_ is not None else find(part)
    rounds = round_ or (finding.shown_by if finding is not None else part.last_round)
    rounds = max(1, min(rounds, part.last_round))
    script, reason = script_of(part, module, rounds)
    text = render(script, part, name=name, finding=finding)
    return Repro(text, script.requests is not None, reason, finding)


def find(part: Part) -> Finding | None:
    """Return the most telling named finding of a part; None if there is none."""
    for named in NAMED.values():
        outcome = named.judge(part, named.threshold)
        if isinstance(outcome, Finding):
            return outcome
    return None


def script_of(part: Part, module: Any, rounds: int) -> tuple[Script, str]:
    """Return a closed loop if it makes the recorded plans, otherwise the recorded calls; and the reason in words."""
    try:
        script = closed_loop(part, module, rounds)
        different = first_difference(script, part, module)
    except NotAScenario as error:
        return recorded_calls(part, module, rounds), str(error)
    if different is None:
        return script, f"a closed loop makes all {rounds:,} recorded plans"
    return recorded_calls(part, module, rounds), f"a closed loop leaves the recording in round {different:,}"


def render(script: Script, part: Part, *, name: str, finding: Finding | None) -> str:
    """Return the text of a script."""
    engine = f"{part.engine.get('name')} {part.engine.get('version')}"
    what = "what it plans" if finding is None else finding.name.replace("_", " ")
    pieces = [
        _HEAD.format(package=_package(part), title=_safe(f"{what}, seen on {engine}"), trace=_safe(name)),
        _literal("SETTINGS", script.settings),
    ]
    if script.requests is not None:
        pieces.append("# A prompt [[token, count], ...] is `count` times `token`; equal prefixes are shared.\n"
                      + _literal("REQUESTS", script.requests))  # fmt: skip
        pieces.append(_literal("LOST_ACKNOWLEDGEMENTS", list(script.lost)))
        loop, make = Driver, "Driver(api, SETTINGS, REQUESTS, LOST_ACKNOWLEDGEMENTS)"
    else:
        pieces.append(_literal("CALLS", script.calls))
        loop, make = Calls, "Calls(api, SETTINGS, CALLS)"  # type: ignore[assignment]
    pieces.append(f"ROUNDS = {script.rounds}")
    used: list[Any] = [build_config, build_group, expand, Watch, loop, line]
    if finding is None:
        expected = _expected(part, script.rounds)
        pieces.append("# Rows [request, tokens] and retractions of the last round, as recorded.\n"
                      + _literal("EXPECTED", expected))  # fmt: skip
        verdict = _COMPARE
    else:
        used.append(getattr(repro_checks, finding.name))
        threshold, budget = NAMED[finding.name].threshold, part.config["max_scheduled_tokens"]
        verdict = _JUDGE.format(judge=finding.name, threshold=threshold, budget=budget)
    pieces += [inspect.getsource(piece).rstrip() for piece in used]
    pieces.append(_MAIN.format(make=make, shown=_SHOWN_ROUNDS, verdict=verdict))
    return "\n\n\n".join(pieces)


def _safe(text: str) -> str:
    """Return text that can stand in a docstring, whatever it holds."""
    return ascii(text)[1:-1].replace('"', "'").replace("\\", "/")[:200]


def _package(part: Part) -> str:
    """Return what pip installs: the recorded version, if the trace is one of the package and names a version."""
    version = str(part.engine.get("version"))
    known = part.engine.get("name") == "tokenspeed-scheduler" and re.fullmatch(r"[0-9.]{1,20}", version)
    return "tokenspeed-scheduler" + (f"=={version}" if known else "")


def _literal(name: str, value: Any) -> str:
    return f"{name} = {pprint.pformat(value, width=_WIDTH, compact=True, sort_dicts=False)}"


def _expected(part: Part, round_: int) -> dict[str, Any]:
    import pyarrow.compute as pc

    operations = part.table("operations")
    rows = operations.filter(pc.equal(operations["round"], round_))
    rounds = part.table("rounds")
    retracted = rounds.filter(pc.equal(rounds["round"], round_))["retracted_requests"].to_pylist()
    columns = (rows["request"].to_pylist(), rows["input_tokens"].to_pylist())
    return {"rows": [list(row) for row in zip(*columns, strict=True)], "retracted": sum(retracted)}


_HEAD = '''"""tokenspeed-scheduler: {title}.

    pip install {package}
    python THIS_FILE

Needs nothing else. Ends with exit code 1 while the problem is there, with 0 when it is gone.
Made by tsviz from the trace {trace}.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from typing import Any

os.environ.setdefault("SPDLOG_LEVEL", "off")'''

_JUDGE = """    problem = {judge}(rounds, {threshold}, {budget})
    print(problem or "not seen: {judge}")
    return 1 if problem else 0"""

_COMPARE = """    last = rounds[-1]
    found = {"rows": [[row[0], row[3]] for row in last["rows"]], "retracted": last["retracted"]}
    print("as recorded" if found == EXPECTED else f"NOT as recorded: expected {EXPECTED}, found {found}")
    return 1 if found == EXPECTED else 0"""

_MAIN = '''def main() -> int:
    """Run the rounds, show them and say what is wrong."""
    import tokenspeed_scheduler as api

    loop = {make}
    if loop.unknown:
        print("settings that this version does not know:", ", ".join(loop.unknown))
    rounds = []
    for number in range(ROUNDS):
        rounds.append(loop.step())
        if number < {shown} or number == ROUNDS - 1:
            print(line(rounds[-1]))
        elif number == {shown}:
            print("...")
    print()
{verdict}


if __name__ == "__main__":
    sys.exit(main())
'''
