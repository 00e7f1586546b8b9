"""A trace as OpenTelemetry spans in OTLP JSON: a span a request, with what was decided about it as its events.

One line of JSON a part, each a whole `ExportTraceServiceRequest` as OTLP/HTTP takes it (POST /v1/traces) and as the
collector's otlpjsonfile receiver reads it. The mapping is that of protobuf's JSON with OTLP's own rules: names in
camelCase, 64-bit numbers as strings, ids in hexadecimal, kinds and codes as numbers. No package is needed to write it.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

Columns = Mapping[str, Sequence[Any]]
"""A relation by column."""
SPAN_KIND_INTERNAL = 1
STATUS_UNSET, STATUS_ERROR = 0, 2
ATTRIBUTES = (
    "prompt_tokens", "max_new_tokens", "generated_tokens", "hit_tokens", "retractions", "recomputed_tokens",
    "queue_ns", "ttft_ns", "submit_round", "end_round",
)  # fmt: skip
"""Columns of `requests` that become attributes `tsviz.NAME`."""
_FAILED = frozenset(("abort", "failed"))


@dataclass(frozen=True, slots=True)
class PartSpans:
    """One scheduler: rows of `rounds`, `requests`, `verdict_runs` and `retractions` (retracted ones), as SQL has them.

    `offset_ns` is what makes Unix time of its clock; `resource` says which scheduler it is.
    """

    name: str
    resource: Mapping[str, str]
    offset_ns: int
    rounds: Columns
    requests: Columns
    verdicts: Columns
    retractions: Columns


@dataclass(slots=True)
class Written:
    """What was written: spans, and events by name."""

    spans: int
    events: Counter[str]


def write_otlp(parts: Sequence[PartSpans], seed: str, out: IO[bytes], version: str) -> Written:
    """Write the spans of all parts; `seed` (the trace's identity) makes ids that are the same each time."""
    written = Written(0, Counter())
    for part in parts:
        spans = _Part(part, seed).spans(written)
        scope = {"scope": {"name": "tsviz", "version": version}, "spans": spans}
        resource = {"attributes": [_attribute(name, value) for name, value in part.resource.items()]}
        line = {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}
        out.write(
            json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace") + b"\n"
        )
    return written


class _Part:
    def __init__(self, part: PartSpans, seed: str) -> None:
        self._part, self._seed = part, seed
        self._rounds, self._starts = part.rounds["round"], part.rounds["start_ns"]
        self._events: dict[int, list[dict[str, Any]]] = {}
        self._ended = max(self._starts, default=0)

    def spans(self, written: Written) -> list[dict[str, Any]]:
        self._decisions()
        found, seen = [], Counter[str]()
        columns = self._part.requests
        for row in zip(*columns.values(), strict=True):
            request = dict(zip(columns, row, strict=True))
            seen[request["request"]] += 1
            span = self._span(request, seen[request["request"]])
            written.spans += 1
            written.events.update(event["name"] for event in span["events"])
            found.append(span)
        return found

    def _span(self, request: Mapping[str, Any], occurrence: int) -> dict[str, Any]:
        arrival = self._known(request["arrival_ns"], request["submitted_ns"])
        events = self._events.get(request["submission"], [])
        for name, at in (("submitted", "submitted_ns"), ("first scheduled", "first_scheduled_ns"),
                         ("first token", "first_token_ns")):  # fmt: skip
            if request[at] is not None:
                events.append(self._event(name, request[at]))
        events.sort(key=lambda event: int(event["timeUnixNano"]))
        ended = request["ended_by"]
        end = max(self._known(request["end_ns"], self._ended), arrival)
        attributes = [_attribute("tsviz.request", request["request"]), _attribute("tsviz.part", self._part.name)]
        attributes += [_attribute(f"tsviz.{name}", request[name]) for name in ATTRIBUTES if request[name] is not None]
        attributes.append(_attribute("tsviz.ended_by", ended or "still there at the end of the trace"))
        failed = ended in _FAILED or not request["accepted"]
        return {
            # The nodes of a pair have the same requests: one trace a request, one span in each of them.
            "traceId": self._digest(16, request["request"], str(occurrence)),
            "spanId": self._digest(8, self._part.name, str(request["submission"])),
            "name": "request", "kind": SPAN_KIND_INTERNAL,
            "startTimeUnixNano": self._unix(arrival), "endTimeUnixNano": self._unix(end),
            "attributes": attributes, "events": events,
            "status": {"code": STATUS_ERROR, "message": ended or "refused"} if failed else {"code": STATUS_UNSET},
        }  # fmt: skip

    def _decisions(self) -> None:
        """Gather what was decided about each request: why it had no row, and who lost its pages to whom."""
        verdicts = self._part.verdicts
        for row in zip(*verdicts.values(), strict=True):
            run = dict(zip(verdicts, row, strict=True))
            said = {name: run[name] for name in ("holder", "rule") if run[name]}
            said |= {"since_round": run["since_round"], "until_round": run["until_round"]}
            at = self._time(run["since_round"])
            self._events.setdefault(run["submission"], []).append(self._event(run["cause"], at, **said))
        retractions = self._part.retractions
        for row in zip(*retractions.values(), strict=True):
            turn = dict(zip(retractions, row, strict=True))
            event = self._event("pages taken", self._time(turn["round"]), round=turn["round"], blocker=turn["blocker"])
            self._events.setdefault(turn["submission"], []).append(event)

    def _event(self, name: str, at_ns: int, **attributes: Any) -> dict[str, Any]:
        told = [_attribute(f"tsviz.{key}", value) for key, value in attributes.items()]
        return {"timeUnixNano": self._unix(at_ns), "name": name, "attributes": told}

    def _time(self, round_: int) -> int:
        place = bisect_right(self._rounds, round_) - 1
        return int(self._starts[place]) if place >= 0 else 0

    def _unix(self, time_ns: int) -> str:
        return str(time_ns + self._part.offset_ns)

    @staticmethod
    def _known(*times: int | None) -> int:
        return next((time for time in times if time is not None), 0)

    def _digest(self, size: int, *words: str) -> str:
        text = "\0".join([self._seed, *words]).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=size).hexdigest()


def _attribute(name: str, value: Any) -> dict[str, Any]:
    kind = {"intValue": str(value)} if isinstance(value, int) else {"stringValue": str(value)}
    return {"key": name, "value": kind}
