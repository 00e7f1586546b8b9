"""What a query process says to the one that started it: frames on a pipe, each a kind, a length and that many bytes."""

from __future__ import annotations

import io
import struct
from typing import BinaryIO

import pyarrow as pa

HEADER = struct.Struct(">cQ")
"""Kind and number of bytes that follow."""
BATCH = b"B"
"""An Arrow stream of its own: the schema and at most one batch. The first frame of a result holds the schema alone."""
PROBLEM = b"P"
"""A `Problem` as JSON; nothing follows."""
WARNING = b"W"
"""A `Problem` as JSON: a bundle that was left out. Comes in front of the result."""
TOTAL = b"T"
"""The `Total` of the result as JSON; nothing follows."""

KINDS = (BATCH, PROBLEM, WARNING, TOTAL)
"""All kinds of frames."""


def write(pipe: BinaryIO, kind: bytes, payload: bytes | pa.Buffer) -> None:
    """Write one frame."""
    pipe.write(HEADER.pack(kind, len(payload)))
    pipe.write(payload)
    pipe.flush()


def encode(schema: pa.Schema, batch: pa.RecordBatch | None = None) -> pa.Buffer:
    """Return the payload of a BATCH frame."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        if batch is not None:
            writer.write_batch(batch)
    return sink.getvalue()


def decode(payload: bytes) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    """Read the payload of a BATCH frame and validate it in full; raises ArrowException, OSError or ValueError."""
    with pa.ipc.open_stream(io.BytesIO(payload)) as reader:
        batches = list(reader)
        for batch in batches:
            batch.validate(full=True)
        return reader.schema, batches
