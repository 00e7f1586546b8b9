"""The queries of docs/failures.md, and what they find in traces."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tsviz.api import open_trace

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "failures.md").read_text()
_SECTIONS = re.findall(r"^##+ (.*?)$(.*?)(?=^##|\Z)", TEXT, re.M | re.S)
SECTIONS: Mapping[str, Sequence[str]] = {
    title: re.findall(r"```sql\n(.*?)```", text, re.S) for title, text in _SECTIONS
}
"""The queries of every section by its title."""
_NUMBERED = {int(title.partition(".")[0]): queries for title, queries in SECTIONS.items() if title[0].isdigit()}
ENTRIES = frozenset(_NUMBERED)
"""The numbers that have a section."""
QUERIES = {n: q for n, queries in _NUMBERED.items() for q in queries if "page_c" not in q}
"""What finds an entry in any trace."""
CRC_QUERIES = {n: q for n, queries in _NUMBERED.items() for q in queries if "page_c" in q}
"""What finds it in a trace with page checksums."""
(ON_THE_WAY, OF_STORAGE) = SECTIONS["Bytes that change on their way"]


def anomaly(name: str) -> str:
    """The query of an anomaly, such as `A1`."""
    return next(queries[0] for title, queries in SECTIONS.items() if f"({name})" in title)


def found(query: str, *bundles: Path) -> Counter[tuple[Any, ...]]:
    """The rows that a query gives on traces; of those of one name without the number that tells them apart."""
    rows = open_trace(*bundles).sql(query).to_pylist()
    return Counter(tuple(re.sub(r"~\d+$", "", str(value)) for value in row.values()) for row in rows)


def reveals(query: str, spoilt: Path, clean: Path) -> bool:
    """Whether a query finds something in a trace with a mistake, the same beside one without, and nothing in that."""
    alone = found(query, spoilt)
    beside = found(query, spoilt, clean), found(query, clean, spoilt)
    return bool(alone) and not found(query, clean) and beside == (alone, alone)
