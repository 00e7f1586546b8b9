"""Where things lie in a bundle, and the small JSON files of it.

    bundle.json             what it is: format, schema, who wrote it, the workload, its parts, clock anchors
    end.json                written when the recording closes: why it ended, totals
    stopped.json            written when recording had to stop before its program did: why, and when
    parts/NODE.RANK/
        part.json           one scheduler: role, config, engine and version, rule set, token mode, clock
        hot/TABLE.arrows    IPC stream segments, appended at every flush
        hot/commits.jsonl   one line a flush, written last: rounds, and length and CRC of every table
        cold/TABLE.parquet  sorted row groups, made when the recording closes
        cold/manifest.json  rows, length and CRC of every cold file; written last

A reader trusts hot files up to the last whole commit, or cold files once their manifest is there. Every JSON object
holds a CRC of its values under `crc`. No directory or file of a bundle may be a link.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import zlib
from pathlib import Path
from typing import Any

from .errors import Damaged, NewerSchema, NotABundle, NothingYet, TraceError
from .lock import ALIVE, GONE, recorder_of
from .tables import SCHEMA_MAJOR, SCHEMA_MINOR

FORMAT = "tsviz-bundle"
BUNDLE_FILE = "bundle.json"
RING_FILE = "ring.json"
"""What `bundle.json` is to a bundle, to the segments of a flight recorder (`ring.py`)."""
END_FILE = "end.json"
STOPPED_FILE = "stopped.json"
PART_FILE = "part.json"
COMMITS_FILE = "commits.jsonl"
MANIFEST_FILE = "manifest.json"
PARTS = "parts"
HOT = "hot"
COLD = "cold"

RECORDED_LEVEL = "recorded_level"
"""In `part.json` of a part whose plans were made again: the level at which it was recorded."""

_CRC = "crc"
_JSON_LIMIT_BYTES = 16 << 20
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def schema_version() -> str:
    """The version of the schema that is written, MAJOR.MINOR."""
    return f"{SCHEMA_MAJOR}.{SCHEMA_MINOR}"


def part_directory(bundle: Path, node: str, rank: int) -> Path:
    """Return where the part of `node` and `rank` lies. Raises ValueError for a node name with odd characters."""
    if not _NAME.fullmatch(node):
        raise ValueError(f"node name {node!r} must match {_NAME.pattern}")
    return bundle / PARTS / f"{node}.{rank}"


def not_utf8(path: Path) -> str:
    """Return the path, shown as bytes, if it has a name that is no UTF-8, which Arrow cannot open; else empty."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return repr(os.fsencode(path))
    return ""


def require_utf8(path: Path) -> None:
    """Raise `TraceError` for a path that Arrow cannot open."""
    if shown := not_utf8(path):
        raise TraceError(shown, "path", "names in UTF-8, which Arrow needs", "bytes that are none")


def enclosing_bundle(path: Path) -> Path | None:
    """Return the bundle that `path` is, or would lie in, links followed; None for a path outside every bundle."""
    real = Path(os.path.realpath(path))
    return next((outer for outer in (real, *real.parents) if (outer / BUNDLE_FILE).is_file()), None)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a small JSON object so that a reader sees the old one or the new one, never half of it.

    Lone surrogates (a command line that is no UTF-8) become question marks.
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=False).encode("utf-8", "replace").decode()
    plain = json.loads(text)
    draft = path.with_suffix(".draft")
    try:
        draft.write_text(json.dumps(plain | {_CRC: _values_crc(plain)}, indent=1, sort_keys=True) + "\n")
        draft.replace(path)
    except OSError:  # half a file helps nobody, and whoever finds it wonders
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def _values_crc(values: dict[str, Any]) -> str:
    """Return the CRC of an object's values, whatever its layout in the file."""
    return f"{zlib.crc32(json.dumps(values, sort_keys=True, separators=(',', ':')).encode()):08x}"


def directory(path: Path) -> Path:
    """Return `path` if it is a directory of its own, not a link to one elsewhere. Raises `Damaged` otherwise."""
    if path.is_symlink() or not path.is_dir():
        found = "a link" if path.is_symlink() else "something else" if path.exists() else "nothing"
        raise Damaged(path, "directory", "a directory", found)
    return path


def regular_file(path: Path) -> Path:
    """Return `path` if it is a plain file (no link, no device). Raises `Damaged` otherwise."""
    try:
        mode = path.lstat().st_mode
    except OSError as error:
        raise Damaged(path, "file", "a plain file", error.strerror or "nothing") from None
    if not stat.S_ISREG(mode):
        raise Damaged(path, "file", "a plain file", "something else")
    return path


def read_json(path: Path) -> dict[str, Any]:
    """Read a small JSON object as `write_json` wrote it. Raises `Damaged` for anything else."""
    return _checked(path, _read_values(path))


def _checked(path: Path, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values behind the CRC that stands with them."""
    crc = values.pop(_CRC, None)
    if crc != (expected := _values_crc(values)):
        raise Damaged(path, _CRC, f"{expected} (that of the values)", repr(crc)[:40])
    return values


def _read_values(path: Path) -> dict[str, Any]:
    regular_file(path)
    if (size := path.stat().st_size) > _JSON_LIMIT_BYTES:
        raise Damaged(path, "size", f"at most {_JSON_LIMIT_BYTES} bytes", f"{size} bytes")
    try:
        value = json.loads(path.read_bytes())
    except json.JSONDecodeError as error:
        raise Damaged(path, f"line {error.lineno} column {error.colno}", "JSON", error.msg) from None
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise Damaged(path, "content", "JSON in UTF-8", type(error).__name__) from None
    if not isinstance(value, dict):
        raise Damaged(path, "content", "a JSON object", type(value).__name__)
    return value


def field(path: Path, values: dict[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    """Return `values[name]` if it is of the right kind. Raises `Damaged` naming file and field otherwise."""
    expected = kind.__name__ if isinstance(kind, type) else " or ".join(k.__name__ for k in kind)
    if name not in values:
        raise Damaged(path, name, expected, "nothing")
    value = values[name]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise Damaged(path, name, expected, type(value).__name__)
    return value


def read_bundle_file(bundle: Path) -> dict[str, Any]:
    """Read and check `bundle.json`. Raises `NotABundle`, `NewerSchema` or `Damaged`; `TraceError` for `not_utf8`."""
    path = bundle / BUNDLE_FILE
    require_utf8(bundle)
    if not bundle.exists():
        raise NotABundle(bundle, "path", "a bundle (a directory)", "nothing")
    if not bundle.is_dir():
        raise NotABundle(bundle, "path", "a bundle (a directory)", "a file")
    if (bundle / RING_FILE).exists():
        raise NotABundle(
            bundle, "path", "a bundle",
            "the segments of a flight recorder, of which its keeper writes traces when a trigger fires,"
            " and `tsviz repair` one if its processes are gone",
        )  # fmt: skip
    if not path.exists():
        raise NotABundle(bundle, BUNDLE_FILE, "the bundle's description", "nothing")
    values = _read_values(path)
    if values.get("format") != FORMAT:
        raise NotABundle(path, "format", FORMAT, repr(values.get("format"))[:80])
    version = field(path, values, "schema", str)
    match = re.fullmatch(r"(\d{1,6})\.(\d{1,6})", version)
    if match is None:
        raise Damaged(path, "schema", "MAJOR.MINOR", repr(version)[:80])
    if int(match[1]) > SCHEMA_MAJOR:
        raise NewerSchema(path, "schema", f"at most {SCHEMA_MAJOR}.x (upgrade tsviz to read it)", version)
    if int(match[1]) < 1:
        raise Damaged(path, "schema", "MAJOR from 1", version)
    return _checked(path, values)


def part_names(bundle: Path, values: dict[str, Any]) -> list[tuple[str, int]]:
    """Return (node, rank) of every part that `bundle.json` names, checked to stay inside the bundle.

    Raises `Damaged`; `NothingYet` where there is none so far, while it is being recorded.
    """
    path = bundle / BUNDLE_FILE
    names = []
    for index, part in enumerate(field(path, values, "parts", list)):
        if not isinstance(part, dict):
            raise Damaged(path, f"parts[{index}]", "an object", type(part).__name__)
        node, rank = field(path, part, "node", str), field(path, part, "rank", int)
        if not _NAME.fullmatch(node) or not 0 <= rank < 1 << 20:
            raise Damaged(path, f"parts[{index}]", "a node name and a rank", f"{node!r}, {rank}"[:80])
        if (node, rank) in names:
            raise Damaged(path, f"parts[{index}]", "a part of its own", f"{node}/{rank} again")
        names.append((node, rank))
    if not names and not (bundle / END_FILE).exists() and (recorder := recorder_of(bundle)) != GONE:
        raise NothingYet(bundle, lives=recorder == ALIVE)
    if not names:
        raise Damaged(path, "parts", "at least one part", "none")
    return names
