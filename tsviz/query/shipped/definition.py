"""What a shipped view or macro is: its SQL, a line of documentation for it and for each column, an example."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Relation:
    """One view or table macro. `parameters` is None for a view; a parameter may carry a default (`x := NULL`)."""

    name: str
    doc: str
    columns: tuple[tuple[str, str], ...]
    """The name of each column behind `trace, node, rank`, and what it says."""
    sql: str
    example: str
    parameters: tuple[str, ...] | None = None
    says_more: bool = False
    """Where decisions are known it says more than without; what it says without them is not less for that."""

    @property
    def signature(self) -> str:
        """How the relation is named in a FROM clause."""
        return self.name if self.parameters is None else f"{self.name}({', '.join(self.parameters)})"

    @property
    def statement(self) -> str:
        """The statement that creates it."""
        what = "VIEW" if self.parameters is None else "MACRO"
        table = "" if self.parameters is None else "TABLE "
        return f"CREATE TEMP {what} {self.signature} AS {table}{self.sql}"


ENDS = "('finish', 'abort', 'failed', 'succeeded')"
"""The events that end a request."""
PART = "trace, node, rank"
SUBMISSION = "trace, node, rank, submission"
