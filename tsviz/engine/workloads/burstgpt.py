"""Importer for BurstGPT: seconds, request and response tokens, read by column name; nothing is shared.

Rows of 0 request and 0 response tokens are calls that failed: they cannot be scheduled and are counted.
"""

from __future__ import annotations

from pathlib import Path

from tsviz.engine.workloads.csvrows import rows_by_column
from tsviz.engine.workloads.files import file_meta, finite_text, single_file, time_ns, whole_number_text
from tsviz.engine.workloads.intake import Intake, meta_of
from tsviz.engine.workloads.model import Workload
from tsviz.engine.workloads.options import SECOND_NS, WorkloadOptions

COLUMNS = ("Timestamp", "Request tokens", "Response tokens")
TOTAL = "Total tokens"

_SOURCE = (
    "BurstGPT, github.com/HPMLL/BurstGPT, CC-BY-4.0; cite: BurstGPT: A Real-World Workload Dataset to Optimize LLM "
    "Serving Systems (KDD 2025)"
)
_INVENTED = "all tokens; the trace has no identity of prefixes: every prompt and output is unlike any other"


def load_burstgpt(path: Path, options: WorkloadOptions) -> Workload:
    """Return the requests of a BurstGPT trace: a file, or a folder with exactly one `*.csv`.

    Time 0 is the first row's. Raises `WorkloadError` for missing columns, bad values, a total that is no sum and time
    that runs backwards.
    """
    file = single_file(path, "*.csv")
    intake = Intake(options)
    first_ns = last_ns = None
    rows = rows_by_column(file, COLUMNS, options.rows, optional=(TOTAL,))
    for row, (place, (stamp, prompt, output, total)) in enumerate(rows, 1):
        at_ns = time_ns(finite_text(stamp, place, "Timestamp"), place, "Timestamp", SECOND_NS)
        if first_ns is None:
            first_ns = at_ns
        if last_ns is not None and at_ns < last_ns:
            raise place.error("Timestamp", f"at least {last_ns / SECOND_NS:g} s as in the row before", stamp)
        last_ns = at_ns
        prompt_tokens = whole_number_text(prompt, place, COLUMNS[1])
        output_tokens = whole_number_text(output, place, COLUMNS[2])
        if total and whole_number_text(total, place, TOTAL) != prompt_tokens + output_tokens:
            raise place.error(TOTAL, f"{prompt_tokens} + {output_tokens} = {prompt_tokens + output_tokens}", total)
        if intake.wanted(at_ns - first_ns, prompt_tokens, output_tokens):
            intake.add(place, row, at_ns - first_ns, intake.fresh_prompt(row, prompt_tokens), output_tokens)
    meta = meta_of("burstgpt", options, source_line=_SOURCE, invented=_INVENTED)
    return intake.workload({**meta, **file_meta([file])})
