"""What the device keeps per request-pool slot: valid length, next inputs, history (`executor-rules.md` section 3).

A slot is used again at once: the first forward of its next owner resets it, on `exec`, behind the forward that lingers.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import torch
from torch import Tensor

from tsviz.executor.upload import upload


class Drafter(Enum):
    """Where the candidates of a wide decode come from."""

    NGRAM = "ngram"
    """What followed the last two tokens when they last occurred."""
    BAD = "bad"
    """The last token plus one, again and again: never asked for, for tests of rejection."""
    MODEL = "model"
    """What a small model says (`drafting`): `Engine` sets it where it is given one."""
    NONE = "none"
    """No candidates: duplicates are fed and one token is taken."""


class SlotState:
    """Tensors indexed by slot; slot 0 and the one past the maximum are for padding.

    `history` remembers so many tokens of a request; only drafting looks at it, and tokens beyond are not drafted from.
    """

    def __init__(
        self, slots: int, width: int, max_tokens: int, drafter: Drafter, vocabulary: int, device: str = "cpu"
    ) -> None:
        self.width = width
        self.drafter = drafter
        self._vocabulary = vocabulary
        self.valid = torch.zeros(slots + 2, dtype=torch.long, device=device)
        self.inputs = torch.zeros((slots + 2, width), dtype=torch.long, device=device)
        self.ready = torch.zeros(slots + 2, dtype=torch.bool, device=device)
        self.history = torch.full((slots + 2, max_tokens), -1, dtype=torch.long, device=device)

    def reset(self, slot: int) -> None:
        """Forget the owner before."""
        self.valid[slot].fill_(0)
        self.ready[slot].fill_(False)
        self.inputs[slot].fill_(0)
        self.history[slot].fill_(-1)

    def fed(self, slot: int, begin: int, tokens: Tensor) -> None:
        """Note a chunk: its tokens stand at `begin` and behind; what is valid ends where it begins."""
        self.valid[slot].fill_(begin)
        end = min(begin + len(tokens), self.history.shape[1])
        self.history[slot, begin:end] = tokens[: max(0, end - begin)]

    def leftover(self, slot: int, begin: int, end: int) -> Tensor:
        """Return what a slot has of its owner before, behind a chunk at `begin` to `end`: inputs, history elsewhere."""
        history = self.history[slot].clone()
        history[begin:end].fill_(-1)
        return torch.cat([self.inputs[slot], self.ready[slot, None].long(), history])

    def landed(self, slot: int, tokens: int, token: int, candidates: Sequence[int]) -> None:
        """Arm a new owner's slot: a peer computed `tokens` tokens and said `token`.

        `candidates` are a window, the token itself first; of any other length they are not taken.
        """
        self.reset(slot)
        self.valid[slot].fill_(tokens)
        if tokens < self.history.shape[1]:
            self.history[slot, tokens].fill_(token)
        drafted = self.width > 1 and len(candidates) == self.width
        window = [token, *candidates[1:]] if drafted else [token] * self.width
        self.inputs[slot] = upload(window, self.inputs.device)
        self.ready[slot].fill_(drafted)

    def give(self, slot: int, token: int) -> None:
        """Take a token of the plan as the last committed one."""
        self.inputs[slot, 0].fill_(token)

    def decode_inputs(self, slots: Tensor) -> Tensor:
        """Return `[rows, width]`: the last committed token and the candidates."""
        return self.inputs[slots]

    def accept(self, slots: Tensor, best: Tensor) -> Tensor:
        """Return how many tokens each row's window gives, given its best tokens `[rows, width]`; at least 1."""
        if self.width == 1:
            return torch.ones_like(slots)
        match = self.inputs[slots, 1:] == best[:, :-1]
        accepted = match.long().cumprod(-1).sum(-1) + 1
        return torch.where(self.ready[slots], accepted, 1)

    def said(self, slots: Tensor, best: Tensor, counts: Tensor) -> Tensor:
        """Note `counts` tokens of `best` `[rows, n]` behind what is valid, draft; return new inputs `[rows, width]`.

        `valid` must already count the rows of this forward that stay.
        """
        columns = torch.arange(best.shape[1], device=best.device)
        known = self.valid[slots]
        at = ((known - counts + 1)[:, None] + columns).clamp_max(self.history.shape[1] - 1)
        self.history[slots[:, None], at] = best
        last = best.gather(1, counts[:, None] - 1)
        self.inputs[slots] = torch.cat([last, self._draft(slots, known, last)], -1)
        self.ready.index_fill_(0, slots, self.drafter is not Drafter.NONE)
        return self.inputs[slots]

    def drafted(self, slots: Tensor, candidates: Tensor) -> Tensor:
        """Take a draft model's candidates `[rows, width - 1]`; return the new inputs `[rows, width]`."""
        self.inputs[slots] = torch.cat([self.inputs[slots, :1], candidates], -1)
        return self.inputs[slots]

    def _draft(self, slots: Tensor, last_at: Tensor, last: Tensor) -> Tensor:
        """Return candidates `[rows, width - 1]` for what follows the token at `last_at`."""
        ahead = self.width - 1
        repeated = last.expand(-1, ahead)
        if ahead == 0 or self.drafter in (Drafter.NONE, Drafter.MODEL):
            return repeated
        if self.drafter is Drafter.BAD:
            return (repeated + 1) % self._vocabulary
        history = self.history[slots]
        position = torch.arange(history.shape[1] - 1, device=history.device)
        before = history.gather(1, (last_at[:, None] - 1).clamp(0, history.shape[1] - 1))
        match = (history[:, :-1] == before) & (history[:, 1:] == last) & (position < last_at[:, None] - 1)
        found = torch.where(match & (before >= 0), position, -1).amax(-1, keepdim=True)
        at = found + 2 + torch.arange(ahead, device=history.device)
        at = torch.minimum(at, last_at[:, None]).clamp_max(history.shape[1] - 1)
        known = (found >= 0) & (last_at[:, None] < history.shape[1])
        return torch.where(known, history.gather(1, at), repeated)
