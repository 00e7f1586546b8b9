"""A trace as OpenTelemetry spans: as many as SQL has requests, with what SQL has of them."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tsviz
from tsviz.cli.main import main

TRACES = Path(__file__).resolve().parents[2] / "traces"
NAMES = ("retract-and-grant", "prefill-decode-pair")


@pytest.fixture(scope="module", params=NAMES)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tsviz.Trace]:
    """A shipped trace as OTLP has it, and as SQL has it."""
    folder = tmp_path_factory.mktemp("otel")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TSVIZ_CACHE", str(folder / "cache"))
        with pytest.raises(SystemExit) as ended:
            main(["export", str(TRACES / request.param), "--otel", str(folder / "out.jsonl")])
        assert ended.value.code == 0
        trace = tsviz.open(TRACES / request.param)
        trace.parts  # noqa: B018 (opened while the cache is the one of this test)
    return folder / "out.jsonl", trace


def spans(file: Path) -> list[dict[str, Any]]:
    """Return every span of a file."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    resources = [resource for line in lines for resource in line["resourceSpans"]]
    return [span for resource in resources for scope in resource["scopeSpans"] for span in scope["spans"]]


def attribute(span: dict[str, Any], name: str) -> str:
    """Return an attribute's value as text."""
    (value,) = [one["value"] for one in span["attributes"] if one["key"] == f"tsviz.{name}"]
    return str(next(iter(value.values())))


def test_there_is_a_span_for_every_request_and_an_event_for_every_decision(both: tuple[Path, tsviz.Trace]) -> None:
    """Counts of spans, of each cause and of retractions are those of SQL."""
    file, trace = both
    found = spans(file)
    requests = trace.sql(
        "SELECT node, rank, request, prompt_tokens, end_ns - arrival_ns AS ns FROM requests"
    ).to_pylist()
    told = {(attribute(s, "part"), attribute(s, "request")): s for s in found}
    assert len(found) == len(told) == len(requests)
    for row in requests:
        span = told[f"{row['node']}/{row['rank']}", row["request"]]
        assert attribute(span, "prompt_tokens") == str(row["prompt_tokens"])
        if row["ns"] is not None:
            assert int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"]) == row["ns"]
    events = Counter(event["name"] for span in found for event in span["events"])
    causes = trace.sql("SELECT cause, count(*) AS n FROM verdict_runs WHERE submission >= 0 GROUP BY cause").to_pylist()
    assert {row["cause"]: row["n"] for row in causes}.items() <= events.items()
    retracted = trace.sql("SELECT count(*) AS n FROM retractions WHERE outcome = 'retracted'")["n"][0].as_py()
    assert events["pages taken"] == retracted


def test_the_nodes_of_a_pair_share_the_trace_of_a_request(both: tuple[Path, tsviz.Trace]) -> None:
    """One trace id a request, a span id of its own in every part."""
    found = spans(both[0])
    by_request: dict[str, set[str]] = {}
    for span in found:
        by_request.setdefault(attribute(span, "request"), set()).add(span["traceId"])
    assert all(len(ids) == 1 for ids in by_request.values())
    assert len({span["spanId"] for span in found}) == len(found)


def test_opentelemetrys_own_package_reads_it(both: tuple[Path, tsviz.Trace]) -> None:
    """Every field is one of OTLP, ids are 16 and 8 bytes, and no span ends before it starts."""
    service = pytest.importorskip(
        "opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="needs opentelemetry-proto"
    )
    from google.protobuf.json_format import Parse

    count = 0
    for line in both[0].read_text().splitlines():
        plain = json.loads(line)
        for span in plain["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            for name in ("traceId", "spanId"):  # OTLP writes ids in hexadecimal, protobuf's JSON in base64
                span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
        read = Parse(json.dumps(plain), service.ExportTraceServiceRequest())
        for span in read.resource_spans[0].scope_spans[0].spans:
            assert (len(span.trace_id), len(span.span_id)) == (16, 8)
            assert span.start_time_unix_nano <= span.end_time_unix_nano
            count += 1
    assert count == len(spans(both[0]))
