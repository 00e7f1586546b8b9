"""Values and number arrays as bytes that prove themselves: what keyframes and answers of the live worker are made of.

    magic "tsvp/2", BLAKE2b-16 of all that follows, length of the body (uint64 LE), zstd of the body
    body: length of the JSON (uint32 LE), JSON {"values": ..., "arrays": [[name, type, count], ...]}, the arrays

Arrays are little-endian, each behind the one before. No pickle: what comes back is builtin values and numpy arrays.
"""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

MAGIC = b"tsvp/2"
BODY_LIMIT_BYTES = 1 << 31
"""What one body may unpack to."""
_DIGEST_BYTES = 16
_LENGTH = struct.Struct("<Q")
_JSON_LENGTH = struct.Struct("<I")
_HEAD_BYTES = len(MAGIC) + _DIGEST_BYTES + _LENGTH.size
_TYPES = ("|u1", "<i4", "<i8", "<u4")

Arrays = dict[str, npt.NDArray[Any]]


class Malformed(Exception):
    """Bytes or values are not what was packed: where, what was expected, what was found."""

    def __init__(self, place: str, expected: str, found: str) -> None:
        self.place, self.expected, self.found = place, expected, found
        super().__init__(f"{place}: expected {expected}, found {found}")


def pack(values: Any, arrays: Arrays) -> bytes:
    """Return JSON-able values and arrays (bytes, or int32 and int64 numbers) as bytes."""
    described = [[name, array.dtype.newbyteorder("<").str, len(array)] for name, array in arrays.items()]
    head = json.dumps({"values": values, "arrays": described}, separators=(",", ":")).encode()
    parts = [_JSON_LENGTH.pack(len(head)), head, *(array.tobytes() for array in arrays.values())]
    body = b"".join(parts)
    compressed: bytes = pa.compress(body, codec="zstd", asbytes=True)
    rest = _LENGTH.pack(len(body)) + compressed
    return MAGIC + hashlib.blake2b(rest, digest_size=_DIGEST_BYTES).digest() + rest


def unpack(data: bytes) -> tuple[Any, Arrays]:
    """Return what `pack` was given. Raises `Malformed` for anything else."""
    return _unpack_body(_body(data))


def unpack_arrays(data: bytes, prefixes: tuple[str, ...]) -> Arrays:
    """Return those arrays that `pack` was given whose names begin with one of `prefixes`; values are not looked at.

    Raises `Malformed` for anything else than what `pack` returns.
    """
    body = _body(data)
    (length,) = _JSON_LENGTH.unpack_from(body)
    start, end = _JSON_LENGTH.size, _JSON_LENGTH.size + length
    described = body.rfind(_DESCRIBED, start, end)  # what stands in front of it takes long to read
    try:
        named = json.loads(body[described + len(_DESCRIBED) : end - 1]) if described >= 0 else None
    except ValueError:
        named = None
    if type(named) is not list:
        raise Malformed("packed state", "its description", "something else")
    return {name: array for name, array in _arrays(body, named, end).items() if name.startswith(prefixes)}


_DESCRIBED = b',"arrays":'


def _body(data: bytes) -> bytes:
    if len(data) < _HEAD_BYTES or data[: len(MAGIC)] != MAGIC:
        raise Malformed("packed state", f"{MAGIC.decode()} and its digest", f"{bytes(data[:8])!r}")
    rest = data[len(MAGIC) + _DIGEST_BYTES :]
    if hashlib.blake2b(rest, digest_size=_DIGEST_BYTES).digest() != data[len(MAGIC) : len(MAGIC) + _DIGEST_BYTES]:
        raise Malformed("packed state", "the digest of its bytes", "another one")
    (size,) = _LENGTH.unpack_from(rest)
    if not _JSON_LENGTH.size <= size <= BODY_LIMIT_BYTES:
        raise Malformed("packed state", f"a body of at most {BODY_LIMIT_BYTES} bytes", str(size))
    try:
        body = pa.decompress(rest[_LENGTH.size :], size, codec="zstd", asbytes=True)
    except (pa.ArrowException, OSError, MemoryError, ValueError) as error:
        raise Malformed("packed state", f"{size} bytes in zstd", type(error).__name__) from None
    return bytes(body)


def _unpack_body(body: bytes) -> tuple[Any, Arrays]:
    (length,) = _JSON_LENGTH.unpack_from(body)
    at = _JSON_LENGTH.size + length
    try:
        head = json.loads(body[_JSON_LENGTH.size : at])
        return head["values"], _arrays(body, head["arrays"], at)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Malformed("packed state", "its description and the arrays in it", str(error)[:80]) from None


def _arrays(body: bytes, described: Any, at: int) -> Arrays:
    """Return the arrays that begin at a place of a body."""
    arrays: Arrays = {}
    try:
        for name, kind, count in described:
            if kind not in _TYPES or not isinstance(name, str) or type(count) is not int or count < 0:
                raise Malformed(f"array {name!r}"[:60], f"one of {_TYPES} and its length", f"{kind!r}, {count!r}"[:60])
            array = np.frombuffer(body, np.dtype(kind), count, at)
            at += array.nbytes
            arrays[name] = array
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Malformed("packed state", "its description and the arrays in it", str(error)[:80]) from None
    if at != len(body):
        raise Malformed("packed state", f"{at} bytes", str(len(body)))
    return arrays
