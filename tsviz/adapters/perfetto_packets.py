"""Packets of a Perfetto trace: tracks, slices, instants, counter values, flows, names stored once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Any

from .perfetto import NoPerfetto, Written

_SEQUENCE = 1
_CLEARED, _NEEDED = 1, 2
"""TracePacket.SequenceFlags: the names begin here; this packet uses them."""


class Packets:
    """Writes packets one by one, so that a long trace needs no memory."""

    def __init__(self, out: IO[bytes]) -> None:
        """Write to `out`. Raises NoPerfetto."""
        try:
            from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
            from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder
        except ImportError as error:
            raise NoPerfetto("tsviz export --perfetto needs perfetto: pip install 'tsviz[perfetto]'") from error
        self._kinds = TrackEvent
        self._builder = StreamingTraceProtoBuilder(out)
        self._names: dict[tuple[str, str], int] = {}
        self._flags = _CLEARED | _NEEDED
        self.written = Written()

    def process(self, uuid: int, pid: int, name: str) -> None:
        """Begin a process."""
        packet = self._packet()
        packet.track_descriptor.uuid = uuid
        packet.track_descriptor.process.pid = pid
        packet.track_descriptor.process.process_name = name
        self._builder.write_packet(packet)

    def track(self, uuid: int, parent: int, name: str, unit: str = "") -> None:
        """Begin a track; one with a unit is a counter."""
        packet = self._packet()
        descriptor = packet.track_descriptor
        descriptor.uuid, descriptor.parent_uuid, descriptor.name = uuid, parent, name
        if unit:
            descriptor.counter.unit_name = unit
        self._builder.write_packet(packet)

    def slice(
        self, track: int, begin_ns: int, end_ns: int, category: str, name: str, arguments: dict[str, Any],
        ends: int = 0, begins: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """Write a slice; `ends` is the flow that ends at it, `begins` are those that leave it."""
        self._event(track, begin_ns, self._kinds.TYPE_SLICE_BEGIN, category, name, arguments, begins, ends)
        packet = self._packet()
        packet.timestamp = end_ns
        packet.track_event.type = self._kinds.TYPE_SLICE_END
        packet.track_event.track_uuid = track
        self._builder.write_packet(packet)

    def instant(
        self,
        track: int,
        at_ns: int,
        category: str,
        name: str,
        arguments: dict[str, Any],
        begins: int = 0,
        ends: int = 0,
    ) -> None:
        """Write an instant, at which flows may begin and end."""
        leave = (begins,) if begins else ()
        self._event(track, at_ns, self._kinds.TYPE_INSTANT, category, name, arguments, leave, ends)

    def count(self, track: int, at_ns: int, value: int) -> None:
        """Write one value of a counter."""
        packet = self._packet()
        packet.timestamp = at_ns
        event = packet.track_event
        event.type, event.track_uuid, event.counter_value = self._kinds.TYPE_COUNTER, track, value
        self.written.counter_values += 1
        self._builder.write_packet(packet)

    def _event(
        self, track: int, at_ns: int, kind: int, category: str, name: str, arguments: dict[str, Any],
        begins: Sequence[int] = (), ends: int = 0,
    ) -> None:  # fmt: skip
        packet = self._packet()
        packet.timestamp = at_ns
        event = packet.track_event
        event.type, event.track_uuid = kind, track
        event.category_iids.append(self._name(packet, "event_categories", category))
        event.name_iid = self._name(packet, "event_names", name)
        for argument, value in arguments.items():
            if value is not None and value != "":
                annotation = event.debug_annotations.add()
                annotation.name_iid = self._name(packet, "debug_annotation_names", argument)
                if isinstance(value, str):
                    annotation.string_value = value
                else:
                    annotation.int_value = value
        event.flow_ids.extend(begins)
        if ends:
            event.terminating_flow_ids.append(ends)
            self.written.flows += 1
        self.written.events[category] = self.written.events.get(category, 0) + 1
        self._builder.write_packet(packet)

    def _packet(self) -> Any:
        packet = self._builder.create_packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.sequence_flags = self._flags
        self._flags = _NEEDED
        return packet

    def _name(self, packet: Any, kind: str, name: str) -> int:
        """Return the number of a name, telling it in this packet if it is new."""
        found = self._names.get((kind, name))
        if found is None:
            found = self._names[kind, name] = len(self._names) + 1
            interned = getattr(packet.interned_data, kind).add()
            interned.iid, interned.name = found, name
        return found
