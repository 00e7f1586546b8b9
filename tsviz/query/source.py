"""What the catalog asks of a bundle, and nothing more (architecture.md, section 3: query knows the trace only).

The reader of `tsviz.trace` satisfies these protocols; tests pass fakes made of Arrow tables in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.dataset as ds


class Part(Protocol):
    """The recording of one scheduler: one node and rank of a bundle."""

    @property
    def node(self) -> str:
        """Name of the node, constant in the part."""

    @property
    def rank(self) -> int:
        """Rank on that node, constant in the part."""

    def tables(self) -> Mapping[str, pa.Table | ds.Dataset]:
        """Return the recorded tables by name: validated, rows at or below the last commit.

        Large finished tables are datasets over Parquet with row groups near a million rows; the others are in memory
        or mapped. A table that is missing counts as empty, and so does a column.
        """


@runtime_checkable
class Configured(Part, Protocol):
    """A part that knows the config of its scheduler."""

    @property
    def config(self) -> Mapping[str, Any]:
        """The config as it was recorded; values are not to be trusted."""


@runtime_checkable
class Levelled(Part, Protocol):
    """A part that knows how much was recorded."""

    @property
    def recorded_level(self) -> str:
        """One of `tsviz.trace.catalogue.LEVELS`, whatever was made again since."""


@runtime_checkable
class Derived(Part, Protocol):
    """A part whose decided tables were not recorded but made by re-execution, and verified."""

    @property
    def derived_round(self) -> int:
        """The last round whose decisions are known."""


class Bundle(Protocol):
    """A trace: its name and its parts."""

    @property
    def name(self) -> str:
        """What the `trace` column says."""

    @property
    def parts(self) -> Sequence[Part]:
        """The parts, in the order in which the catalog lists them."""


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A bundle of which one part is asked."""

    name: str
    parts: Sequence[Part]


def narrowed(bundle: Bundle, node: str, rank: int) -> Narrowed:
    """Return a bundle with one of its parts. Raises LookupError that names those there are."""
    chosen = [part for part in bundle.parts if (part.node, part.rank) == (node, rank)]
    if not chosen:
        there = ", ".join(f"{part.node}/{part.rank}" for part in bundle.parts)
        raise LookupError(f"no part {node}/{rank}; there are {there}")
    return Narrowed(bundle.name, chosen)


Opener = Callable[[str], Bundle]
"""Opens the bundle at a path; raises an error that names file, place, expected and found."""
