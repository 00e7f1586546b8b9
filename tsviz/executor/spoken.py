"""What requests said, exactly as far as they got it (`executor-rules.md` sections 1 and 4).

With a result in flight a forward lingers behind the end of a request: what it says nobody gets. Nor does anybody get
the tail of a wide window that goes beyond the tokens that a request asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor

from tsviz.engine.workloads.model import WorkRequest


@dataclass(frozen=True, slots=True)
class Said:
    """Tokens that a request said in one forward: the position of the first, the logits behind them if kept, the margin
    between the two largest logits (the smallest of the window)."""

    position: int
    tokens: tuple[int, ...]
    logits: Tensor | None
    margin: float


@dataclass(slots=True, eq=False)
class Speech:
    """One request while it lives: what it has said, forward by forward, and how many tokens it still wants."""

    left_tokens: int
    said: list[Said] = field(default_factory=list)
    ended: bool = False

    def note(self, said: Said) -> None:
        """Keep what the request gets of it: nothing once it has ended."""
        tokens = () if self.ended else said.tokens[: self.left_tokens]
        if tokens:
            logits = None if said.logits is None else said.logits[: len(tokens)]
            self.said.append(replace(said, tokens=tokens, logits=logits))
            self.left_tokens -= len(tokens)


class Spoken:
    """The speeches of a device; `said` has those of requests that have ended too."""

    def __init__(self) -> None:
        self.said: dict[str, list[Said]] = {}
        self._living: dict[str, Speech] = {}

    def of(self, request: WorkRequest) -> Speech:
        """Return the speech of a request that lives."""
        speech = self._living.get(request.request_id)
        if speech is None:
            speech = self._living[request.request_id] = Speech(request.output_tokens)
            self.said[request.request_id] = speech.said
        return speech

    def release(self, request_id: str) -> None:
        """The request has ended: forwards that are out say nothing more to it."""
        if (speech := self._living.pop(request_id, None)) is not None:
            speech.ended = True
