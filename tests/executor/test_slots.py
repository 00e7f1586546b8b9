"""What the device keeps per slot: history, drafts, landing (`executor-rules.md` section 3)."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

from tsviz.executor.slots import Drafter, SlotState


def one(tokens: list[int]) -> torch.Tensor:
    """One row of tokens."""
    return torch.tensor([tokens])


def test_an_ngram_draft_is_what_followed_the_last_two_tokens() -> None:
    """After 1 2 3 1 and a token 2 the pair 1 2 has stood before, followed by 3 1."""
    slots = SlotState(1, 3, 16, Drafter.NGRAM, 97)
    slots.fed(1, 0, torch.tensor([1, 2, 3, 1]))
    slots.valid[1] = 4
    assert slots.said(torch.tensor([1]), one([2, 0, 0]), torch.tensor([1])).tolist() == [[2, 3, 1]]


@pytest.mark.parametrize("beyond", [0, 1, 5])
def test_a_request_longer_than_its_history_is_drafted_without_it(beyond) -> None:
    """A retracted request may grow past the bound of admission that sizes the history: its last token is repeated."""
    slots = SlotState(1, 3, 4, Drafter.NGRAM, 97)
    slots.fed(1, 0, torch.tensor([1, 2, 1, 2, 1, 2]))
    slots.valid[1] = 4 + beyond
    assert slots.said(torch.tensor([1]), one([2, 0, 0]), torch.tensor([1])).tolist() == [[2, 2, 2]]
    slots.landed(1, 4 + beyond, 7, ())
    assert slots.inputs[1].tolist() == [7, 7, 7]
    assert not slots.ready[1]
