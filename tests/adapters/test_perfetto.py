"""A trace as Perfetto's format, read back with Perfetto's own package."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import tsviz
from tsviz.adapters.perfetto import PartRows, write_perfetto
from tsviz.cli.main import main
from tsviz.trace.compact import file_crc, footer_crc
from tsviz.trace.layout import read_json, write_json

pb = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="needs the extra `perfetto`")
TRACES = Path(__file__).resolve().parents[2] / "traces"
EVENT = pb.TrackEvent


class Read:
    """A written trace: its tracks, and its events with the names that they refer to."""

    def __init__(self, file: Path) -> None:
        self.tracks: dict[int, Any] = {}
        self.events: list[tuple[int, Any, str, str]] = []
        names: dict[tuple[str, int], str] = {}
        for packet in pb.Trace.FromString(file.read_bytes()).packet:
            for kind in ("event_names", "event_categories"):
                names |= {(kind, one.iid): one.name for one in getattr(packet.interned_data, kind)}
            if packet.HasField("track_descriptor"):
                assert packet.track_descriptor.uuid not in self.tracks
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            if packet.HasField("track_event"):
                event = packet.track_event
                categories = [names["event_categories", iid] for iid in event.category_iids]
                name = names["event_names", event.name_iid] if event.name_iid else ""
                self.events.append((packet.timestamp, event, "".join(categories), name))

    def of(self, category: str) -> list[tuple[int, Any, str, str]]:
        """Return the events of a category."""
        return [event for event in self.events if event[2] == category]


@pytest.fixture(scope="module", params=["mixed-undeclared-livelock", "prefill-decode-pair", "smollm2-live"])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shared_indexes: None
) -> tuple[Read, tsviz.Trace]:
    """A shipped trace as Perfetto has it, and as SQL has it."""
    file = tmp_path_factory.mktemp("perfetto") / "out.pftrace"
    with pytest.raises(SystemExit) as ended:
        main(["export", str(TRACES / request.param), "--perfetto", str(file)])
    assert ended.value.code == 0
    return Read(file), tsviz.open(TRACES / request.param)


def count(trace: tsviz.Trace, relation: str) -> int:
    """Return the rows of a relation."""
    number: int = trace.sql(f"SELECT count(*) AS n FROM {relation}")["n"][0].as_py()
    return number


def test_every_row_is_one_event(both: tuple[Read, tsviz.Trace]) -> None:
    """Slices of rounds, forwards, operations and waits, and instants of retractions, are as many as rows in SQL."""
    read, trace = both
    events = Counter(category for _, _, category, _ in read.events if category)
    for category, relation in (
        ("round", "rounds"), ("device", "forwards"), ("device_operation", "device_ops"), ("operation", "operations"),
        ("wait", "verdict_runs WHERE cause <> 'scheduled'"), ("retraction", "retractions WHERE outcome = 'retracted'"),
    ):  # fmt: skip
        assert events[category] == count(trace, relation), category
    assert events["wait"] > 0


def test_every_request_has_a_track_and_every_part_is_a_process(both: tuple[Read, tsviz.Trace]) -> None:
    """Tracks below `requests` are the submitted requests, in order; processes are the schedulers."""
    read, trace = both
    parents = {uuid for uuid, track in read.tracks.items() if track.name == "requests"}
    names = [track.name for track in read.tracks.values() if track.parent_uuid in parents]
    rows = trace.sql("FROM requests JOIN (SELECT node, rank, row_number() OVER () AS n FROM parts) USING (node, rank)"
                     " ORDER BY n, submission")  # fmt: skip
    assert names == rows["request"].to_pylist()
    processes = [t.process.process_name for t in read.tracks.values() if t.HasField("process")]
    assert processes == [f"{p['node']}/{p['rank']} ({p['role']})" for p in trace.parts.to_pylist()]


def test_a_flow_leads_from_each_blocker_to_each_blocked(both: tuple[Read, tsviz.Trace]) -> None:
    """Flows are waits and retractions for the sake of another request, and stalls; each begins once and ends once."""
    read, trace = both
    begun = [flow for _, event, _, _ in read.events for flow in event.flow_ids]
    ended = [flow for _, event, _, _ in read.events for flow in event.terminating_flow_ids]
    waits = count(trace, "verdict_runs WHERE cause <> 'scheduled' AND holder <> '' AND holder <> request")
    retracted = count(trace, "retractions WHERE outcome = 'retracted' AND blocker <> victim")
    assert len(begun) == len(set(begun)) == waits + retracted + count(trace, "device_stalls")
    assert sorted(begun) == sorted(ended)


def test_slices_of_a_track_close_in_order(both: tuple[Read, tsviz.Trace]) -> None:
    """On each track a slice ends before or when the next begins, and none is left open."""
    read, _ = both
    by_track: dict[int, list[tuple[int, int, int]]] = {}
    open_at: dict[int, int] = {}
    for time, event, _, _ in read.events:
        if event.type == EVENT.TYPE_SLICE_BEGIN:
            assert event.track_uuid not in open_at
            open_at[event.track_uuid] = time
        elif event.type == EVENT.TYPE_SLICE_END:
            by_track.setdefault(event.track_uuid, []).append((open_at.pop(event.track_uuid), time, event.track_uuid))
    assert not open_at
    for slices in by_track.values():
        ordered = sorted(slices)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(ordered))


def test_an_operation_that_stood_still_has_a_flow_from_what_it_waited_for(tmp_path: Path) -> None:
    """Two streams are two tracks; times that cross by a nanosecond are put in the order of the stream."""
    ops = {
        "round": [7, 7, 7], "op": [4, 5, 6], "stream": ["exec", "exec", "write"], "kind": ["layer", "result", "store"],
        "layer": [0, None, None], "op_id": [None, None, 9], "moved_bytes": [64, 0, 32],
        "start_ns": [10, 19, 25], "end_ns": [20, 24, 30], "stall_ns": [None, None, 11], "for_op": [None, None, 5],
    }  # fmt: skip
    empty: dict[str, tuple[Any, ...]] = defaultdict(tuple)
    part = PartRows("F/0", "Fused", empty, empty, empty, empty, empty, empty, empty, (), ops)
    with (tmp_path / "out").open("wb") as out:
        written = write_perfetto([part], out)
    read = Read(tmp_path / "out")
    begun = {name: list(e.flow_ids) for _, e, c, name in read.events if c == "device_operation"}
    (ended,) = [list(e.terminating_flow_ids) for _, e, _, name in read.events if name == "store"]
    assert begun == {"layer": [], "result": ended, "store": []} and len(ended) == 1
    assert [(t, read.tracks[e.track_uuid].name) for t, e, _, n in read.events if n] == [
        (10, "exec"), (20, "exec"), (25, "write"),
    ]  # fmt: skip
    assert (written.events, written.flows) == ({"device_operation": 3}, 1)


def test_counters_of_groups_are_the_pool(both: tuple[Read, tsviz.Trace]) -> None:
    """Each row of `pool` gives a value to both counters of its group; each round gives five."""
    read, trace = both
    values = sum(event.type == EVENT.TYPE_COUNTER for _, event, _, _ in read.events)
    assert values == 2 * count(trace, "pool") + 5 * count(trace, "rounds")
    track = next(uuid for uuid, t in read.tracks.items() if t.name.endswith(" cached pages"))
    shown = sum(e.counter_value for _, e, _, _ in read.events if e.track_uuid == track)
    first = trace.parts.to_pylist()[0]
    total = trace.sql(
        f"SELECT sum(cached_pages) AS n FROM pool WHERE \"group\" = 0 AND node = '{first['node']}' AND rank = 0"
    )["n"][0].as_py()
    assert shown == total


def test_a_time_that_no_packet_holds_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A forward that starts before 0 ends the export with 3, file, place, expected and found, and leaves no file."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))
    trace = Path(shutil.copytree(TRACES / "retract-and-grant", tmp_path / "trace"))
    cold = trace / "parts" / "F.0" / "cold"
    path = cold / "forwards.parquet"
    table = pq.read_table(path)
    starts = [-5, *table["start_ns"].to_pylist()[1:]]
    at = table.schema.get_field_index("start_ns")
    pq.write_table(table.set_column(at, table.schema.field(at), [starts]), path)
    manifest = read_json(cold / "manifest.json")
    manifest["tables"]["forwards"] |= {
        "bytes": path.stat().st_size, "crc": file_crc(path), "footer_crc": footer_crc(path),
    }  # fmt: skip
    write_json(cold / "manifest.json", manifest)
    with pytest.raises(SystemExit) as ended:
        main(["export", str(trace), "--perfetto", str(tmp_path / "out")])
    assert ended.value.code == 3
    said = f"{trace}/parts/F.0/forwards: start_ns of row 1, round {table['round'][0]}: expected a number from 0 to"
    said_of = capsys.readouterr().err
    assert said in said_of and said_of.endswith("found -5\n")
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith("out")] == []
