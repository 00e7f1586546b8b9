"""Make a picture small: an 8-bit RGB or RGBA PNG, as a browser writes it, becomes one with 256 colours."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOURS = 256


def shrink(path: Path) -> None:
    """Rewrite a PNG with the colours that most of it has; each other pixel gets the nearest of them."""
    pixels = _read(path.read_bytes())
    height, width, _ = pixels.shape
    packed = pixels.reshape(-1, 3).astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    colours, which, count = np.unique(packed, return_inverse=True, return_counts=True)
    channels = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1).astype(np.int32)
    chosen = channels[_frequent(channels, count)]
    distance = ((channels[:, None, :] - chosen[None, :, :]) ** 2).sum(axis=2)
    index = distance.argmin(axis=1).astype(np.uint8)[which].reshape(height, width)
    rows = np.concatenate([np.zeros((height, 1), np.uint8), index], axis=1)
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = (
        (b"IHDR", head), (b"PLTE", chosen.astype(np.uint8).tobytes()),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""),
    )  # fmt: skip
    path.write_bytes(_SIGNATURE + b"".join(_chunk(name, data) for name, data in parts))


def _frequent(channels: npt.NDArray[np.int32], count: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Return rows of the most frequent colours, at most one of each cube of 8 steps a side."""
    order = np.argsort(-count, kind="stable")
    cubes = (channels[order] >> 3) @ np.array([1 << 10, 1 << 5, 1])
    _, first = np.unique(cubes, return_index=True)
    return order[np.sort(first)[:_COLOURS]]


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _read(data: bytes) -> Bytes:
    """Return the pixels (height, width, 3). Raises ValueError for a PNG of another kind."""
    at, packed, head = len(_SIGNATURE), b"", b""
    while at < len(data):
        size, name = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + size]
        head, packed = (body, packed) if name == b"IHDR" else (head, packed + body if name == b"IDAT" else packed)
        at += size + 12
    width, height, bits, kind, _, _, interlaced = struct.unpack(">IIBBBBB", head)
    if data[:8] != _SIGNATURE or bits != 8 or kind not in (2, 6) or interlaced:
        raise ValueError(f"expected an 8-bit RGB or RGBA PNG, found {bits} bits, colour type {kind}")
    depth = 3 if kind == 2 else 4
    lines = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, width * depth + 1)
    above, rows = np.zeros((width, depth), np.uint8), []
    for line in lines:
        above = _unfilter(int(line[0]), line[1:].reshape(width, depth), above)
        rows.append(above[:, :3])
    return np.stack(rows)


def _unfilter(kind: int, line: Bytes, above: Bytes) -> Bytes:
    """Undo a filter of the PNG specification (section 9): 0 none, 1 sub, 2 up, 3 average, 4 Paeth."""
    if kind == 0:
        return line
    if kind == 1:
        return np.cumsum(line, axis=0, dtype=np.uint8)
    if kind == 2:
        return line + above
    out = []
    for now, up in zip(line.T.tolist(), above.T.tolist(), strict=True):
        left = corner = 0
        row = []
        for value, b in zip(now, up, strict=True):
            left = (value + ((left + b) // 2 if kind == 3 else _paeth(left, b, corner))) & 255
            corner = b
            row.append(left)
        out.append(row)
    return np.array(out, np.uint8).T


def _paeth(a: int, b: int, c: int) -> int:
    guess = a + b - c
    by_a, by_b, by_c = abs(guess - a), abs(guess - b), abs(guess - c)
    return a if by_a <= by_b and by_a <= by_c else b if by_b <= by_c else c
