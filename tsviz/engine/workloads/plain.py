"""Importer for workloads written by hand: one JSON object a line, exactly the requests that are to arrive.

    {"id": "a", "arrival_ms": 0, "prompt_tokens": 16, "output_tokens": 4}
    {"id": "b", "after": "a", "think_ms": 5, "prompt": [["system", 32], ["b", 7]], "output_tokens": 9}

`prompt_tokens` is a prompt that nothing shares. `prompt` is made of named parts: equal names are equal tokens, as far
as the shorter part reaches. `max_new_tokens` wins over the option. Small scenarios of incidents are written so.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from tsviz.engine.workloads.errors import Place
from tsviz.engine.workloads.files import field_of, file_meta, parse_object, single_file, time_ns, whole_number
from tsviz.engine.workloads.intake import arrival_ns, meta_of, reason_to_skip, refuse_window, sped_up
from tsviz.engine.workloads.model import Span, Workload, WorkRequest, length_of
from tsviz.engine.workloads.options import WorkloadOptions
from tsviz.engine.workloads.sources import Use, source

_MS_NS = 1_000_000
_KNOWN = frozenset(
    ("id", "arrival_ms", "after", "think_ms", "prompt_tokens", "prompt", "output_tokens", "max_new_tokens")
)
_SOURCE = "written by hand"
_INVENTED = "the tokens of each named part and of each output (unlike any other)"


def load_plain(path: Path, options: WorkloadOptions) -> Workload:
    """Return the requests of a hand-written workload: a file, or a folder with exactly one `*.jsonl`.

    Raises `WorkloadError` for unknown fields, ids that repeat, an `after` that names no earlier request, and lengths or
    times that are none.
    """
    refuse_window("plain", options)
    file = single_file(path, "*.jsonl")
    requests: list[WorkRequest] = []
    skipped: dict[str, int] = {}
    seen: set[str] = set()
    parts: dict[str, int] = {}
    rows = 0
    for row, line in enumerate(islice(file.lines(), options.rows), 1):
        rows += 1
        place = Place(str(file.path), f"line {row}")
        values = parse_object(line, place)
        for name in values:
            if name not in _KNOWN:
                raise place.error(name, f"one of {', '.join(sorted(_KNOWN))}", values[name])
        request_id = _name(values, "id", place)
        if request_id in seen:
            raise place.error("id", "an id that was not used before", request_id)
        prompt, output_tokens = _prompt(values, row, parts, options, place), _length(values, "output_tokens", place)
        if (reason := reason_to_skip(length_of(prompt), output_tokens)) is not None:
            skipped[reason] = skipped.get(reason, 0) + 1
            continue
        at_ns, after, think_ns = _arrival(values, seen, options, place)
        seen.add(request_id)
        length = options.scaled(output_tokens)
        budget = options.max_new_tokens(length)
        if "max_new_tokens" in values:
            budget = whole_number(values["max_new_tokens"], place, "max_new_tokens")
        output = (Span(source(Use.OUTPUT, row), 0, length),)
        requests.append(WorkRequest(request_id, prompt, output, budget, at_ns, after, think_ns))
    meta = meta_of("plain", options, source_line=_SOURCE, invented=_INVENTED)
    return Workload(tuple(requests), {**meta, **file_meta([file]), "input_rows": rows}, skipped)


def _name(values: dict[str, object], field: str, place: Place) -> str:
    value = field_of(values, field, place)
    if not isinstance(value, str):
        raise place.error(field, "a string", value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise place.error(field, "text that is UTF-8", value) from None
    return value


def _length(values: dict[str, object], field: str, place: Place) -> int:
    return whole_number(field_of(values, field, place), place, field)


def _prompt(
    values: dict[str, object], row: int, parts: dict[str, int], options: WorkloadOptions, place: Place
) -> tuple[Span, ...]:
    if ("prompt" in values) == ("prompt_tokens" in values):
        raise place.error("prompt", "either prompt or prompt_tokens", "both" if "prompt" in values else "neither")
    if "prompt_tokens" in values:
        tokens = _length(values, "prompt_tokens", place)
        return (Span(source(Use.PROMPT, row), 0, options.scaled(tokens)),) if tokens else ()
    named = values["prompt"]
    if not isinstance(named, list):
        raise place.error("prompt", "a list of [name, tokens]", named)
    spans = []
    for index, part in enumerate(named):
        field = f"prompt[{index}]"
        if not (isinstance(part, list) and len(part) == 2 and isinstance(part[0], str)):
            raise place.error(field, "[name, tokens]", part)
        tokens = whole_number(part[1], place, field)
        if tokens:
            number = parts.setdefault(part[0], len(parts))
            spans.append(Span(source(Use.BLOCK, number), 0, options.scaled(tokens)))
    return tuple(spans)


def _arrival(
    values: dict[str, object], seen: set[str], options: WorkloadOptions, place: Place
) -> tuple[int | None, str | None, int]:
    if ("after" in values) == ("arrival_ms" in values):
        raise place.error("arrival_ms", "either arrival_ms or after", "both" if "after" in values else "neither")
    if "arrival_ms" in values:
        if "think_ms" in values:
            raise place.error("think_ms", "after, which it belongs to", "arrival_ms")
        return arrival_ns(time_ns(values["arrival_ms"], place, "arrival_ms", _MS_NS), options, place), None, 0
    after = _name(values, "after", place)
    if after not in seen:
        raise place.error("after", "the id of an earlier request", after)
    think_ns = time_ns(values.get("think_ms", 0), place, "think_ms", _MS_NS)
    return None, after, sped_up(think_ns, options, place)
