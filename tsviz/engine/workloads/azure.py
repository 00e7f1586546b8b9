"""Importer for the Azure LLM inference traces of 2023: arrival, prompt length, output length; nothing is shared."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from tsviz.engine.workloads.csvrows import rows_by_column
from tsviz.engine.workloads.errors import Place
from tsviz.engine.workloads.files import file_meta, single_file, whole_number_text
from tsviz.engine.workloads.intake import Intake, meta_of
from tsviz.engine.workloads.model import Workload
from tsviz.engine.workloads.options import SECOND_NS, WorkloadOptions

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")

_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|\+00:00)?", re.ASCII)
_SOURCE = (
    "Azure Public Dataset, Microsoft, github.com/Azure/AzurePublicDataset, CC-BY-4.0; cite: Splitwise: Efficient "
    "generative LLM inference using phase splitting (ISCA 2024)"
)
_INVENTED = "all tokens; the trace has no identity of prefixes: every prompt and output is unlike any other"


def load_azure(path: Path, options: WorkloadOptions) -> Workload:
    """Return the requests of an Azure trace: a file, or a folder with exactly one `*.csv`.

    Time 0 is the first row's. Raises `WorkloadError` for missing columns, bad values and time that runs backwards.
    """
    file = single_file(path, "*.csv")
    intake = Intake(options)
    first_ns = last_ns = None
    for row, (place, (stamp, prompt, output)) in enumerate(rows_by_column(file, COLUMNS, options.rows), 1):
        at_ns = timestamp_ns(stamp, place)
        if first_ns is None:
            first_ns = at_ns
        if last_ns is not None and at_ns < last_ns:
            raise place.error("TIMESTAMP", "not before the row before", stamp)
        last_ns = at_ns
        prompt_tokens = whole_number_text(prompt, place, "ContextTokens")
        output_tokens = whole_number_text(output, place, "GeneratedTokens")
        if intake.wanted(at_ns - first_ns, prompt_tokens, output_tokens):
            intake.add(place, row, at_ns - first_ns, intake.fresh_prompt(row, prompt_tokens), output_tokens)
    meta = meta_of("azure", options, source_line=_SOURCE, invented=_INVENTED)
    return intake.workload({**meta, **file_meta([file])})


def timestamp_ns(text: str, place: Place) -> int:
    """Return ns since 1970 of a UTC wall-clock time with up to 9 decimals (the traces have 7), exactly."""
    match = _TIMESTAMP.fullmatch(text)
    try:
        whole = None if match is None else datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
    except ValueError:
        whole = None
    if match is None or whole is None:
        raise place.error("TIMESTAMP", "a UTC time such as 2023-11-16 18:15:46.6805900", text)
    return int(whole.timestamp()) * SECOND_NS + int((match[2] or "0").ljust(9, "0"))
