"""Runs lifetimes in a child process, and survives the reference aborting it.

The child notes in shared memory which call of which lifetime it is about to make. When it dies by SIGABRT
the parent knows the call, and repeats that lifetime in a new child, where the call is made on the subject
only and judged by ``exemptions.may_abort``.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from tests.conformance.lifetimes import Lifetime, run_lifetime
from tests.conformance.modules import Missing, load


@dataclass(frozen=True, slots=True)
class Summary:
    """A lifetime without its calls, small enough to send: see ``Lifetime``."""

    seed: int
    profile: str
    difference: str
    exemptions: list[tuple[int, str]]
    ended_early: bool
    rounds: int
    rows: int
    calls: int
    features: dict[str, int]


def summarise(life: Lifetime) -> Summary:
    """What a campaign keeps of a lifetime."""
    return Summary(
        life.seed,
        life.profile,
        life.describe(),
        life.exemptions,
        life.ended_early,
        life.rounds,
        life.rows,
        len(life.calls),
        dict(life.features),
    )


def run_seeds(seeds: list[int], subject: str) -> Iterator[Summary]:
    """Yield a summary per seed, in order; ``subject`` is ``"real"`` or ``"twin"``."""
    context = multiprocessing.get_context("spawn")
    abort_at: dict[int, int] = {}
    done = 0
    while done < len(seeds):
        place = context.Array("q", 2)
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=_work, args=(seeds[done:], subject, abort_at, place, sender))
        child.start()
        sender.close()
        for summary in _received(receiver):
            done += 1
            yield summary
        child.join()
        if done < len(seeds):
            if child.exitcode != -signal.SIGABRT:
                raise RuntimeError(f"worker ended with {child.exitcode} in seed {place[0]}, call {place[1]}")
            abort_at[place[0]] = place[1]


def _received(receiver: Connection) -> Iterator[Summary]:
    while True:
        try:
            yield receiver.recv()
        except EOFError:
            return


def _work(seeds: list[int], subject: str, abort_at: dict[int, int], place: Any, sender: Connection) -> None:
    """The child: every seed in turn, its place noted before each call of the reference."""
    reference, other = load("real"), load(subject)
    if isinstance(reference, Missing) or isinstance(other, Missing):
        raise RuntimeError(f"cannot compare: {reference}, {other}")
    for seed in seeds:
        place[0] = seed

        def note(number: int) -> None:
            place[1] = number

        life = run_lifetime(seed, reference, other, abort_at=abort_at.get(seed), on_call=note)
        sender.send(summarise(life))
    sender.close()
