"""The words of an SQL text: what predicates and completion look at before the engine does."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb


@dataclass(frozen=True, slots=True)
class Word:
    """One token: `kind` is that of the engine's tokenizer, `first` its place in characters."""

    kind: str
    """identifier, keyword, operator, numeric_const, string_const or comment."""
    text: str
    """As it stands; an operator is one character."""
    first: int

    @property
    def name(self) -> str:
        """The name that it is, lower case and without quotes: names of SQL are told without regard to case."""
        text = self.text
        return (text[1:-1].replace('""', '"') if text.startswith('"') else text).lower()

    @property
    def at(self) -> tuple[int, int]:
        """Its first character and how many there are."""
        return self.first, len(self.text)

    @property
    def names(self) -> bool:
        """Whether it can name something: an identifier, or a keyword (`groups` is one)."""
        return self.kind in ("identifier", "keyword")


def words(text: str, *, comments: bool = False) -> list[Word]:
    """Return the words of a text, comments among them on demand. Any text has words; none raises."""
    raw = text.encode(errors="replace")
    text = raw.decode()
    starts = [(offset, str(kind.name)) for offset, kind in duckdb.tokenize(text)]
    ends = [*(offset for offset, _ in starts[1:]), len(raw)][: len(starts)]
    found = []
    for (offset, kind), following in zip(starts, ends, strict=True):
        shown = raw[offset:following].decode(errors="replace")
        shown = shown[:1] if kind == "operator" else shown if kind in ("comment", "string_const") else _first(shown)
        if comments or kind != "comment":
            found.append(Word(kind, shown.rstrip(), len(raw[:offset].decode(errors="replace"))))
    return found


def _first(text: str) -> str:
    """Return the text up to the space behind it; a quoted name holds its spaces."""
    if not text.startswith('"'):
        return text.split(maxsplit=1)[0] if text.strip() else text
    end = text.find('"', 1)
    while 0 <= end < len(text) - 1 and text[end + 1] == '"':
        end = text.find('"', end + 2)
    return text if end < 0 else text[: end + 1]
