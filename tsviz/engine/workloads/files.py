"""Reading workload files that may be anything: every way to fail is a `WorkloadError` that names the place."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tsviz.engine.workloads.errors import Place, WorkloadError
from tsviz.engine.workloads.sources import LENGTH_LIMIT_TOKENS

_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?")

TIME_LIMIT_NS = 1 << 61
"""No time in a workload reaches this (73 years)."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file that was read: its text, and what the metadata keeps of it."""

    path: Path
    name: str
    sha256: str
    text: str

    def lines(self) -> list[str]:
        """Return the lines without their ends (LF or CRLF); a missing last line end is no fault."""
        lines = [line.removesuffix("\r") for line in self.text.split("\n")]
        if lines[-1] == "":
            lines.pop()
        return lines


def read_text(path: Path) -> TextFile:
    """Return the file's text. Raises `WorkloadError` if it is no regular file, empty, or no UTF-8 text."""
    whole = Place(str(path), "whole file")
    try:
        if not path.is_file():
            found = "a folder" if path.is_dir() else "no such file" if not path.exists() else "something else"
            raise whole.error("path", "a regular file", found)
        data = path.read_bytes()
    except (OSError, ValueError) as problem:
        if isinstance(problem, WorkloadError):
            raise
        raise whole.error("path", "a file that can be read", _reason(problem)) from None
    try:
        text = data.decode("utf-8-sig")
        bad = text.find("\0")
    except UnicodeDecodeError as problem:
        text, bad = "", problem.start
    if bad >= 0:
        line = data.count(b"\n", 0, bad) + 1
        raise Place(str(path), f"line {line}").error("content", "UTF-8 text", f"byte {data[bad : bad + 1].hex()}")
    if not text.strip():
        raise whole.error("content", "at least one row", f"{len(data)} bytes, none of them in a row")
    return TextFile(path, path.name, hashlib.sha256(data).hexdigest(), text)


def files_in(path: Path, pattern: str) -> list[Path]:
    """Return the path itself if it is no folder, otherwise the folder's files of that pattern by name (at least 1)."""
    try:
        if not path.is_dir():
            return [path]
        found = sorted(path.glob(pattern))
    except (OSError, ValueError) as problem:
        raise Place(str(path), "whole file").error("path", "a path that can be read", _reason(problem)) from None
    if not found:
        raise Place(str(path), "whole folder").error("path", f"a folder that holds {pattern}", "none in it")
    return found


def single_file(path: Path, pattern: str) -> TextFile:
    """Return the one file that is meant: the path itself, or the only one of that pattern in the folder."""
    found = files_in(path, pattern)
    if len(found) > 1:
        names = ", ".join(f.name for f in found)
        raise Place(str(path), "whole folder").error("path", f"exactly one {pattern}", f"{len(found)}: {names}")
    return read_text(found[0])


def file_meta(files: Sequence[TextFile]) -> dict[str, str | int]:
    """Return what the metadata says of the files that were read: bare names and SHA-256, never a path.

    Several files are named by their folder; their hash is that of the lines `sha256  name`, in order.
    """
    if len(files) == 1:
        return {"file": files[0].name, "file_sha256": files[0].sha256}
    listing = "".join(f"{file.sha256}  {file.name}\n" for file in files)
    digest = hashlib.sha256(listing.encode()).hexdigest()
    return {"file": files[0].path.resolve().parent.name, "files": len(files), "file_sha256": digest}


def parse_object(text: str, place: Place) -> dict[str, object]:
    """Return the JSON object; NaN, infinities and numbers of thousands of digits are errors as damaged text is."""

    def refuse(constant: str) -> object:
        raise place.error("JSON", "finite numbers", constant)

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        values = dict(pairs)
        if len(values) < len(pairs):
            raise place.error("JSON", "each field once", ", ".join(name for name, _ in pairs))
        return values

    try:
        value: object = json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
    except WorkloadError:
        raise
    except (ValueError, RecursionError) as problem:
        raise place.error("JSON", "a JSON object", f"{_reason(problem)} in {text[:40]!r}") from None
    if not isinstance(value, dict):
        raise place.error("JSON", "a JSON object", type(value).__name__)
    return value


def field_of(values: dict[str, object], name: str, place: Place) -> object:
    """Return the value of a field that must be there."""
    if name not in values:
        raise place.error(name, "the field to be there", f"fields {', '.join(values) or 'none'}")
    return values[name]


def whole_number(value: object, place: Place, field: str, limit: int = LENGTH_LIMIT_TOKENS) -> int:
    """Return the value if it is a whole number in 0 .. limit - 1 (a token count unless `limit` says otherwise)."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < limit:
        raise place.error(field, f"a whole number from 0 to {limit - 1}", value)
    return value


def whole_number_text(text: str, place: Place, field: str, limit: int = LENGTH_LIMIT_TOKENS) -> int:
    """Return the number that plain digits say, in 0 .. limit - 1."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) < limit):
        raise place.error(field, f"a whole number from 0 to {limit - 1}", text)
    return int(text)


def time_ns(value: object, place: Place, field: str, unit_ns: int) -> int:
    """Return a time in ns from a number of units; negative, not finite or beyond 73 years is an error."""
    limit = TIME_LIMIT_NS // unit_ns
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < limit:
        return value * unit_ns if isinstance(value, int) else round(value * unit_ns)
    raise place.error(field, f"a time from 0 to below {limit} (73 years)", value)


def finite_text(text: str, place: Place, field: str) -> float:
    """Return the finite number of at least 0 that the text says."""
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not (math.isfinite(value) and value >= 0):
        raise place.error(field, "a finite number of at least 0", text)
    return value


def _reason(problem: Exception) -> str:
    return (problem.strerror if isinstance(problem, OSError) else None) or str(problem) or type(problem).__name__
