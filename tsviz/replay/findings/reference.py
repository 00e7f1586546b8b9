"""`docs/findings.md` from the checks in code: `python -m tsviz.replay.findings.reference > docs/findings.md`."""

from __future__ import annotations

import inspect
from functools import partial

from tsviz.replay.scenario.predicates import NAMED, STORM_ROUNDS

from .model import Check
from .scan import CHECKS

_HEAD = """# Findings

Generated from the checks in code by `python -m tsviz.replay.findings.reference`; do not edit.

`tsviz findings TRACE` makes every check on every part. A finding has a sentence, the numbers behind it, the requests
it is about and positions (`node/rank:round`) that `tsviz open TRACE@POSITION` and `tsviz why` take. `--all` also shows
what was not found, with how near it came, and what could not be checked. A check that lacks what it reads ends as *not
checkable*, never as ok: with `--recorded-only`, behind a twin that left the recording, where rows were dropped, or
with one rank only. Otherwise decisions that were not recorded are derived by re-execution, as `tsviz index` does.
Checks that need a real device, or its page checksums (`record --model`, `--page-crcs`), are made of traces that have
them, and are not mentioned of others.

How a check ended is kept in the user's cache, keyed by the bytes of the trace, by how far decisions are known and by
the code of the checks: a trace that was indexed (`tsviz index`), or checked once, has its findings at once.

Exit code 0, whatever is found. `--fail-on NAME` ends with 6 if NAME is found and is a broken invariant, with 1 if it is
found and is not.

No alarm is raised while something outstanding could change the next plan: an engine that waits for a peer or a copy is
right to wait, however long its plans are empty. What is out for too long is a finding of its own,
`acknowledgement_missing`.

| finding | what it says | more than | needs |
|---|---|---|---|
"""


def reference() -> str:
    """Return the document."""
    rows = [
        f"| `{check.name}` | {check.says} | {check.threshold:,} {check.counts} | {check.needs} |\n" for check in CHECKS
    ]
    return _HEAD + "".join(rows) + "".join(map(_section, CHECKS))


def _section(check: Check) -> str:
    scan = check.scan
    judge = NAMED[check.name].judge if isinstance(scan, partial) else scan
    said = inspect.getdoc(judge) or ""
    said = said.removeprefix("Judge").lstrip(": ").replace("STORM_ROUNDS", str(STORM_ROUNDS))
    threshold = f"\n\nA finding from more than {check.threshold:,} {check.counts}."
    breach = " Breaks an invariant (`--fail-on` ends with 6)." if check.breach else ""
    return f"\n## `{check.name}`\n\n{said[0].upper() + said[1:]}{threshold}{breach}\n"


if __name__ == "__main__":
    print(reference(), end="")
