"""The knobs of a what-if: what can be said, what it does to a config or to the requests (debugger.md, section 4).

A knob has the name of the option of `tsviz record`; the scheduler's own name for it is taken too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tsviz.engine.configs import GroupSpecError, SchedulerOptions, parse_groups
from tsviz.engine.workloads.model import WorkRequest
from tsviz.trace.config import describe_config

from .source import Source


class BadKnob(ValueError):
    """A knob that does not exist or a value that it does not take; says what was expected and found."""


@dataclass(frozen=True, slots=True)
class Knob:
    """A knob: the config field that it sets (empty: it is no field), its kind, and what it is in words."""

    name: str
    field: str
    kind: str
    least: int
    doc: str
    midway: bool = False
    """Whether it can be turned in the middle of a trace."""


KNOBS = (
    Knob("pages", "num_device_pages", "number", 2, "device pages, the null page included", midway=True),
    Knob("host_pages", "num_host_pages", "number", 0, "host pages, the null page included; 0: no host tier"),
    Knob("groups", "cache_groups", "groups", 0, "cache groups, as for `tsviz record --groups`"),
    Knob("chunk", "max_scheduled_tokens", "number", 1, "token budget of a round", midway=True),
    Knob("batch", "max_batch_size", "number", 1, "rows of a batch", midway=True),
    Knob("mixed", "enable_mixed_prefill_decode", "switch", 0, "prefill and decode rows in one batch", midway=True),
    Knob("width", "decode_input_tokens", "number", 0, "tokens of a decode step"),
    Knob("overlap", "overlap_schedule_depth", "number", 0, "results in flight"),
    Knob("prefix_page", "prefix_granularity", "number", 1, "tokens of a prefix page"),
    Knob("prefix_cache", "disable_prefix_cache", "switch", 0, "whether ordinary requests match what is cached"),
    Knob("replay_tokens", "prefix_replay_tokens", "number", 0, "prompt tail that is recomputed after a hit"),
    Knob("max_new", "", "budget", 0, "declared (what each request generated, if it said nothing), undeclared, or N"),
    Knob("acceptance", "", "share", 0, "of a candidate, if width is not the recorded one"),
)
_BY_NAME = {knob.name: knob for knob in KNOBS} | {k.field: k for k in KNOBS if k.field and k.name != "prefix_cache"}
_SWITCH = {"on": True, "true": True, "1": True, "yes": True, "off": False, "false": False, "0": False, "no": False}
_LARGEST = 2**31 - 1
_DIGITS = 20
"""Longer ones are larger in any case, and too long for int()."""

Value = int | bool | float | str


@dataclass(frozen=True, slots=True)
class Change:
    """One knob turned to a value."""

    knob: Knob
    value: Value

    def __str__(self) -> str:
        shown = ("on" if self.value else "off") if isinstance(self.value, bool) else self.value
        return f"{self.knob.name}={shown}"


def knob_of(name: str) -> Knob:
    """Return the knob of a name. Raises BadKnob."""
    found = _BY_NAME.get(name.strip().replace("-", "_"))
    if found is None:
        raise BadKnob(f"expected one of {', '.join(k.name for k in KNOBS)}, found {name!r}")
    return found


def parse_change(text: str) -> Change:
    """Parse `KNOB=VALUE`. Raises BadKnob."""
    name, equals, value = text.partition("=")
    if not equals:
        raise BadKnob(f"expected KNOB=VALUE, found {text!r}")
    knob = knob_of(name)
    return Change(knob, _value(knob, value.strip()))


def _value(knob: Knob, text: str) -> Value:
    plain = text.replace("_", "").replace(",", "")
    if knob.kind == "switch" and text.lower() in _SWITCH:
        return _SWITCH[text.lower()]
    if (
        knob.kind == "number"
        and len(plain) <= _DIGITS
        and plain.isascii()
        and plain.isdigit()
        and knob.least <= int(plain) <= _LARGEST
    ):
        return int(plain)
    if knob.kind == "budget" and _is_budget(text, plain):
        return int(plain) if plain.isdigit() else text
    if knob.kind == "share":
        try:
            if 0 <= float(text) <= 1:
                return float(text)
        except ValueError:
            pass
    if knob.kind == "groups":
        try:
            parse_groups(text)
        except GroupSpecError as error:
            raise BadKnob(str(error)) from error
        return text
    expected = {
        "switch": "on or off", "number": f"a whole number from {knob.least:,} to {_LARGEST:,}",
        "share": "a number from 0 to 1", "groups": "cache groups",
        "budget": f"declared, undeclared or a whole number from 1 to {_LARGEST:,}",
    }  # fmt: skip
    raise BadKnob(f"{knob.name}: expected {expected[knob.kind]}, found {text!r}")


def _is_budget(text: str, plain: str) -> bool:
    named = text in ("declared", "undeclared")
    return named or (len(plain) <= _DIGITS and plain.isascii() and plain.isdigit() and 1 <= int(plain) <= _LARGEST)


def changed_config(config: Mapping[str, Any], changes: Sequence[Change], module: Any) -> dict[str, Any]:
    """Return the configuration (data of `describe_config`) with the changes; page counts of groups follow the pool."""
    made = dict(config)
    for change in changes:
        knob, value = change.knob, change.value
        if knob.kind == "groups":
            options = SchedulerOptions(groups=parse_groups(str(value)), num_device_pages=made["num_device_pages"])
            made["cache_groups"] = describe_config(options.build(module))["cache_groups"]
        elif knob.name == "prefix_cache":
            made["disable_prefix_cache"] = not value
        elif knob.field:
            made[knob.field] = value
    if made["num_device_pages"] != config["num_device_pages"] or any(c.knob.kind == "groups" for c in changes):
        usable = made["num_device_pages"] - 1
        made["cache_groups"] = [
            dict(group, total_pages=usable * group["cache_blocks_per_lcm_block"] + 1) for group in made["cache_groups"]
        ]
    return made


def changed_requests(source: Source, changes: Sequence[Change]) -> tuple[WorkRequest, ...]:
    """Return the requests of the recording with the budgets that the changes declare."""
    requests = source.requests
    for change in changes:
        if change.knob.name == "max_new":
            requests = tuple(replace(r, max_new_tokens=_budget(r, change.value)) for r in requests)
    return requests


def _budget(request: WorkRequest, value: Value) -> int:
    if value == "undeclared":
        return 0
    if value == "declared":
        return request.max_new_tokens or request.output_tokens
    return int(value)


def acceptance(source: Source, config: Mapping[str, Any], changes: Sequence[Change]) -> float | None:
    """Return the rate by which windows are drawn; None: they end where the recorded ones did. Raises BadKnob."""
    told = next((float(c.value) for c in changes if c.knob.name == "acceptance"), None)
    width = config["decode_input_tokens"]
    if width < 2 or (told is None and width == source.part.config["decode_input_tokens"]):
        return None
    rate = source.acceptance_rate if told is None else told
    if rate is None:
        raise BadKnob(f"width={width}: the recording has no candidates to learn from; say acceptance=RATE as well")
    return rate
