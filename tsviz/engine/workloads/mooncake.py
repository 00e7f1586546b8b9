"""Importer for the Mooncake traces (FAST'25): one JSON object a line, prompts as chained ids of 512-token blocks.

The last id usually stands for a partial block (ceil): it has the first tokens of what the whole block would have.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from tsviz.engine.workloads.blocks import Blocks
from tsviz.engine.workloads.errors import Place
from tsviz.engine.workloads.files import TextFile, field_of, file_meta, parse_object, single_file, time_ns, whole_number
from tsviz.engine.workloads.intake import Intake, meta_of
from tsviz.engine.workloads.model import Span, Workload
from tsviz.engine.workloads.options import WorkloadOptions
from tsviz.engine.workloads.sources import NUMBER_BITS, Use, source

BLOCK_TOKENS = 512
"""Tokens of a block of these traces, before scaling."""

_MS_NS = 1_000_000
_SOURCE = "Mooncake traces, github.com/kvcache-ai/Mooncake (FAST'25), Apache-2.0"
_INVENTED = "the tokens of each block (from its id) and of each output (unlike any other)"


def load_mooncake(path: Path, options: WorkloadOptions) -> Workload:
    """Return the requests of a Mooncake trace: a file, or a folder with exactly one `*.jsonl`.

    Raises `WorkloadError` for rows that contradict themselves, one another or the format.
    """
    file = single_file(path, "*.jsonl")
    intake = Intake(options)
    _take_rows(file, intake)
    meta = meta_of("mooncake", options, source_line=_SOURCE, invented=_INVENTED)
    return intake.workload({**meta, **file_meta([file])})


def _take_rows(file: TextFile, intake: Intake) -> None:
    blocks = Blocks(BLOCK_TOKENS, intake.options.scale, NUMBER_BITS, lambda block: source(Use.BLOCK, block))
    last_ns = 0
    for row, line in enumerate(islice(file.lines(), intake.options.rows), 1):
        place = Place(str(file.path), f"line {row}")
        values = parse_object(line, place)
        at_ns = time_ns(field_of(values, "timestamp", place), place, "timestamp", _MS_NS)
        if at_ns < last_ns:
            raise place.error(
                "timestamp", f"at least {last_ns / _MS_NS:g} ms as in the row before", values["timestamp"]
            )
        last_ns = at_ns
        prompt_tokens = whole_number(field_of(values, "input_length", place), place, "input_length")
        output_tokens = whole_number(field_of(values, "output_length", place), place, "output_length")
        count = -(-prompt_tokens // BLOCK_TOKENS)
        rule = f"one per 512 tokens of input_length {prompt_tokens}, the last one may be partial"
        ids = blocks.ids(field_of(values, "hash_ids", place), count, rule, place)
        if intake.wanted(at_ns, prompt_tokens, output_tokens):
            prompt = blocks.spans(ids)
            _trim_last(prompt, intake.options.scaled(prompt_tokens) - blocks.start(count - 1))
            intake.add(place, row, at_ns, prompt, output_tokens)


def _trim_last(prompt: list[Span], length: int) -> None:
    last = prompt.pop()
    if length > 0:
        prompt.append(Span(last.source, 0, length))
