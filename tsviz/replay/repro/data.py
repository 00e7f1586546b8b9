"""What a script is made of: settings, and requests for a closed loop or recorded calls, as plain literals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tsviz.engine.workloads.model import Span
from tsviz.replay.reexecution.call_log import CallLog
from tsviz.replay.rows.lifetimes import Lifetimes, column
from tsviz.replay.scenario.read import read_scenario
from tsviz.replay.scenario.scenario import NotAScenario, behind, cut
from tsviz.replay.scenario.tokens import SpanBook, page_numbers, unbroken
from tsviz.trace import entries as e
from tsviz.trace.config import CONFIG_FIELDS, GROUP_FIELDS
from tsviz.trace.reader import Part

from .driver import Driver

MAX_CALLS = 5_000
MAX_ROUNDS = 5_000
MAX_PARTS = 20_000


class TooLong(Exception):
    """The trace does not fit into a script; the message says how much there is and what to do."""


@dataclass(frozen=True, slots=True)
class Script:
    """Settings, rounds to run, and either requests with lost copies (a closed loop) or calls."""

    settings: dict[str, Any]
    rounds: int
    requests: list[dict[str, Any]] | None = None
    lost: tuple[int, ...] = ()
    calls: list[list[Any]] | None = None


def settings_of(module: Any, config: dict[str, Any]) -> dict[str, Any]:
    """Return a recorded config without what `module` has by default."""
    plain = module.SchedulerConfig()
    settings = {name: config[name] for name in CONFIG_FIELDS if config[name] != getattr(plain, name)}
    if config["role"] != plain.role.name:
        settings["role"] = config["role"]
    group = module.CacheGroupConfig()
    defaults = {name: getattr(group, name) for name in GROUP_FIELDS}
    defaults |= {name: getattr(group, name).name for name in ("retention", "family", "transfer_policy")}
    settings["cache_groups"] = [
        {name: value for name, value in fields.items() if value != defaults.get(name)}
        for fields in config["cache_groups"]
    ]
    return settings


def closed_loop(part: Part, module: Any, rounds: int) -> Script:
    """Return the requests of a part for a closed loop of `rounds` rounds.

    Raises `NotAScenario` for what a minimal loop cannot do, `TooLong`, `TraceError`.
    """
    scenario = read_scenario(part)
    if scenario.left_out or scenario.scheduler.decode_input_tokens != 1:
        raise NotAScenario("; ".join(scenario.left_out) or "several tokens a decode step")
    life = Lifetimes(part)
    submitted = life.submitted[np.flatnonzero(life.accepted)].tolist()
    aborted = life.end_round[np.flatnonzero(life.accepted)].tolist()
    leaving = {abort.request_id for abort in scenario.aborts}
    requests = []
    for request, round_, end in zip(scenario.requests, submitted, aborted, strict=True):
        if round_ > rounds:
            continue
        made: dict[str, Any] = {
            "id": request.request_id, "round": round_, "prompt": parts(request.prompt),
            "output": parts(request.output), "max_new_tokens": request.max_new_tokens,
        }  # fmt: skip
        if request.request_id in leaving:
            made["abort_round"] = end - 1
        requests.append(made)
    _bounded(rounds, sum(len(r["prompt"]) + len(r["output"]) for r in requests), 0)
    lost = tuple(sorted(scenario.device.acks.lost_ops))
    return Script(settings_of(module, part.config), rounds, requests, lost)


def recorded_calls(part: Part, module: Any, rounds: int) -> Script:
    """Return the calls of a part up to the plan of `rounds`.

    Raises `NotAScenario` for a slice, `TooLong`, `TraceError`.
    """
    if "starts_at" in part.meta:
        raise NotAScenario(f"a slice from round {part.meta['starts_at']}: expected a trace from its first round")
    numbers, life = page_numbers(part), Lifetimes(part)
    book = SpanBook(part.prefix_tokens)
    for pages in numbers:
        book.add([pages[i] for i in range(unbroken(pages))])
    landed = life.landed(np.arange(life.count, dtype=np.int64), 0xFFFF_FFFF)
    spans = [book.spans(i, int(life.prompt[i] + landed[i])) for i in range(life.count)]
    held = [int(tokens) for tokens in life.prompt]
    calls: list[list[Any]] = []
    size = 0
    for call in CallLog(part):
        if call.round > rounds:
            break
        if call.kind == e.SUBMIT:
            submissions = range(call.first_submission, call.first_submission + len(call.specs))
            made: list[dict[str, Any]] = [
                {"id": spec.request, "prompt": parts(cut(spans[s], len(spec.tokens))),
                 "max_new_tokens": spec.max_new_tokens}
                for s, spec in zip(submissions, call.specs, strict=True)
            ]  # fmt: skip
            size += sum(len(request["prompt"]) for request in made)
            calls.append([call.kind, made])
        elif call.kind == e.ADVANCE:
            events = []
            for event, submission in zip(call.events, call.submissions, strict=True):
                events.append(_event(event, submission, spans, held))
            size += len(events)
            calls.append([call.kind, events])
        elif call.kind in (e.REGISTER_KEYS, e.UNREGISTER_KEYS):
            calls.append([call.kind, *([key[i] for key in call.keys] for i in range(3))])
        else:
            calls.append([call.kind])
        _bounded(rounds, size, len(calls))
    return Script(settings_of(module, part.config), rounds, calls=calls)


_EVENTS = {
    e.EXTEND_RESULT: "ExtendResult", e.FINISH: "Finish", e.ABORT: "Abort", e.RETRACT: "Retract",
    e.UPDATE_RESERVE: "UpdateReserveNumTokens", e.WRITE_BACK_DONE: "WriteBackDoneEvent",
    e.LOAD_BACK_DONE: "LoadBackDoneEvent", e.BOOTSTRAPPED: "BootstrappedEvent", e.FAILED: "FailedEvent",
    e.SUCCEEDED: "SucceededEvent", e.REMOTE_PREFILL_DONE: "RemotePrefillDoneEvent",
}  # fmt: skip


def _event(event: e.Event, submission: int, spans: list[tuple[Span, ...]], held: list[int]) -> list[Any]:
    kind = _EVENTS[event.kind]
    if event.kind == e.EXTEND_RESULT:
        count = len(event.tokens)
        tokens = parts(cut(behind(spans[submission], held[submission]), count)) if submission >= 0 else [[0, count]]
        if submission >= 0:
            held[submission] += count
        return [kind, event.request, tokens, *([len(event.candidates)] if event.candidates else [])]
    if event.op_id is not None:
        return [kind, event.op_id, event.value != 0]
    if event.value is not None:
        return [kind, event.request, event.value]
    return [kind, event.request]


def parts(spans: tuple[Span, ...]) -> list[list[int]]:
    """Return spans as [token, count]: a source becomes a token, since only equality of prefixes matters."""
    found: list[list[int]] = []
    for span in spans:
        if found and found[-1][0] == span.source:
            found[-1][1] += span.length
        else:
            found.append([span.source, span.length])
    return found


def _bounded(rounds: int, size: int, calls: int) -> None:
    for what, count, most in (("rounds", rounds, MAX_ROUNDS), ("calls", calls, MAX_CALLS), ("items", size, MAX_PARTS)):
        if count > most:
            raise TooLong(f"{count:,} {what}, at most {most:,} fit a script: minimize the trace, or end at TRACE@ROUND")


def first_difference(script: Script, part: Part, module: Any) -> int | None:
    """Run a closed loop and return the first round whose rows are not the recorded ones; None if all are."""
    assert script.requests is not None
    operations = part.table("operations")
    names = ("round", "request", "input_tokens")
    recorded: dict[int, list[tuple[str, int]]] = {}
    for round_, request, tokens in zip(*(operations[n].to_pylist() for n in names), strict=True):
        recorded.setdefault(round_, []).append((request, tokens))
    retracted = column(part.table("rounds"), "retracted_requests").tolist()
    driver = Driver(module, script.settings, script.requests, list(script.lost))
    for round_ in range(1, script.rounds + 1):
        seen = driver.step()
        rows = [(row[0], row[3]) for row in seen["rows"]]
        if rows != recorded.get(round_, []) or seen["retracted"] != retracted[round_ - 1]:
            return round_
    return None
