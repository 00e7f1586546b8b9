"""P5: findings on open of a large trace: those that were made when it was indexed, and those that plans need only.

`TSVIZ_LARGE` names the bundle. What an index keeps is read back as `tsviz findings` and the screen do; made anew are
the checks that recorded tables decide. A trace that was made by repeating one has no decisions: of it the kept checks
are those of its plans, read the same way.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Iterator

from tsviz.replay.findings.scan import check_kept
from tsviz.trace.reader import open_bundle

from .calibration import calibration_ms
from .measure import Line
from .q1_sql import LARGE, large


def figures() -> Iterator[Line]:
    """Yield seconds until all findings are there: made, and made before."""
    path = large()
    if path is None:
        yield Line("P5", f"{LARGE} names no bundle", float("nan"), "")
        return
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TSVIZ_CACHE"] = cache
        for name, budget in (("made from plans", None), ("made before", 2.0)):
            start, before = time.perf_counter(), time.process_time()
            bundle = open_bundle(path)
            rounds = bundle.parts[0].rows("rounds")
            checked = [one for part in bundle.parts for one in check_kept(bundle, part, "none 0", lambda: None)]
            wall, busy = time.perf_counter() - start, time.process_time() - before
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            found = sum(one.outcome == "found" for one in checked)
            note = f"{busy:.2f} s CPU, {memory:,.0f} MB, {found} found; calibration {calibration_ms():.2f} ms"
            yield Line("P5", f"{len(checked)} checks, {rounds:,} rounds, {name}", wall, "s", budget, note=note)
