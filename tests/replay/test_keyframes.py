"""Keyframes: a state as bytes, and back, at any point between two calls of any run."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.lives import Life, plain
from tsviz.replay.keyframes.book import Keyframe
from tsviz.replay.keyframes.keyframe import Block, state_digest, write_block
from tsviz.replay.keyframes.packed import pack, unpack
from tsviz.scheduler.invariants import check
from tsviz.scheduler.scheduler import Scheduler
from tsviz.trace.errors import Damaged
from tsviz.trace.rounds import BookState

PLACE = Path("somewhere")


def _frame(scheduler: Scheduler) -> Keyframe:
    snapshot = scheduler.snapshot()
    known = {request.request_id: (at, at, -1) for at, request in enumerate(snapshot.requests)}
    return Keyframe(snapshot.rounds + 1, snapshot, BookState(known, 0, np.zeros(0, np.int64), {}))


def _back(scheduler: Scheduler, data: bytes, index: int = 0) -> Keyframe:
    return Block(PLACE, data).keyframe(index, scheduler.config, check=True)


def _plans(life: Life, rounds: int = 30) -> list[Any]:
    out = []
    for number in range(rounds):
        plan = life.step(number)
        if plan is None:
            break
        out.append(plain(plan))
    return out


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), dice_seed=st.integers(0, 1000))
def test_restored_from_bytes_the_twin_goes_on_alike(seed: int, dice_seed: int) -> None:
    """Replaced by its state from bytes at random calls, a scheduler makes the same plans as one that never was."""
    dice = Random(dice_seed)

    def swap(life: Life) -> None:
        if dice.random() < 0.3:
            found = _back(life.scheduler, write_block([_frame(life.scheduler)]))
            life.scheduler = Scheduler.restore(found.snapshot)

    swapped = Life(seed)
    swapped.between = swap
    assert _plans(swapped) == _plans(Life(seed))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_state_and_its_bytes_have_one_digest(seed: int) -> None:
    """Digests of states that were run through and of the same read from a block of several are equal, and move on."""
    life = Life(seed)
    frames, digests = [], []
    for number in range(12):
        if life.step(number) is None:
            break
        frames.append(_frame(life.scheduler))
        digests.append(state_digest(frames[-1].snapshot))
    data = write_block(frames)
    for index, digest in enumerate(digests):
        found = _back(life.scheduler, data, index)
        assert (found.round, state_digest(found.snapshot)) == (frames[index].round, digest)
        assert state_digest(Scheduler.restore(found.snapshot).snapshot()) == digest
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize("seed", [3, 11, 26])
def test_flipped_bits_are_told(seed: int) -> None:
    """Of 150 blocks with a bit flipped or cut off somewhere every one raises `Damaged`."""
    life, dice = Life(seed), Random(seed)
    for number in range(15):
        life.step(number)
    data = write_block([_frame(life.scheduler)])
    for _ in range(150):
        at = dice.randrange(len(data))
        flipped = bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]
        broken = data[:at] + (b"" if dice.random() < 0.3 else flipped)
        with pytest.raises(Damaged):
            _back(life.scheduler, broken)


def _spoilt(value: Any, dice: Random) -> Any:
    """Return a JSON value with one thing in it changed to something else."""
    if isinstance(value, dict) and value:
        key = dice.choice(list(value))
        return value | {key: _spoilt(value[key], dice)}
    if isinstance(value, list) and value and dice.random() < 0.9:
        at = dice.randrange(len(value))
        return [*value[:at], _spoilt(value[at], dice), *value[at + 1 :]]
    return dice.choice([None, -1, 0, 1, 7, 1 << 40, -(1 << 70), True, "r1", "", [], {}, [[1]], 0.5])


@pytest.mark.parametrize("seed", range(8))
def test_forged_states_are_refused_or_are_states(seed: int) -> None:
    """With a value changed and every digest made right again, a block is `Damaged` or a state that holds together."""
    life, dice = Life(seed), Random(seed)
    for number in range(15):
        life.step(number)
    frame = _frame(life.scheduler)
    (count, *sections) = _parts(write_block([frame]))
    told = 0
    for _ in range(60):
        which = dice.randrange(2)
        values, arrays = unpack(sections[which])
        if dice.random() < 0.5 and values is not None:
            values = _spoilt(values, dice)
        else:
            name = dice.choice([name for name, array in arrays.items() if len(array)])
            changed = arrays[name].copy()
            changed[dice.randrange(len(changed))] = dice.choice([0, 1, 2, 5, 100])
            arrays[name] = changed if dice.random() < 0.8 else changed[:-1]
        forged = [*sections]
        forged[which] = pack(values, arrays)
        data = count + b"".join(len(part).to_bytes(8, "little") + part for part in forged)
        try:
            found = _back(life.scheduler, data)
        except Damaged:
            told += 1
            continue
        check(Scheduler.restore(found.snapshot))
    assert told > 20


def _parts(data: bytes) -> list[bytes]:
    parts, at = [data[:4]], 4
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], "little")
        parts.append(data[at + 8 : at + 8 + size])
        at += 8 + size
    return parts
