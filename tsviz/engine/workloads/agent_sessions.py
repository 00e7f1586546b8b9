"""Generator: agent sessions, in which a turn's prompt is the last one's prompt and output and something new.

Turns after the first have no time of their own: they come after the last one ended, plus think time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random

from tsviz.engine.workloads.draws import exponential, length_near, stream
from tsviz.engine.workloads.errors import Place
from tsviz.engine.workloads.intake import generator_meta, refuse_window, sped_up
from tsviz.engine.workloads.model import Span, Workload, WorkRequest
from tsviz.engine.workloads.options import SECOND_NS, WorkloadOptions
from tsviz.engine.workloads.sources import Use, source

PARAMETERS = (
    "sessions", "turns", "rate", "think_s", "prefix_tokens", "prompt_tokens", "tail_tokens", "output_tokens", "spread"
)  # fmt: skip

_INVENTED = "everything: lengths, arrivals, think times, tokens, and that all sessions share the leading prefix_tokens"


def generate_agent_sessions(options: WorkloadOptions) -> Workload:
    """Return `sessions` x `turns` requests, session by session, sessions starting at `rate` a second (Poisson).

    The first prompt is `prefix_tokens` that all sessions share and `prompt_tokens` of its own; each later one is the
    prompt before, the output before and `tail_tokens` new ones. Think times are exponential of mean `think_s`.
    """
    refuse_window("agent_sessions", options)
    arrivals = stream(options.seed, "agent_sessions", "arrivals")
    requests: list[WorkRequest] = []
    at_s = 0.0
    for session in range(1, options.sessions + 1):
        at_s += exponential(arrivals, 1 / options.rate)
        wanted = None if options.rows is None else options.rows - len(requests)
        requests.extend(islice(_session(session, round(at_s * SECOND_NS), options), wanted))
    meta = generator_meta("agent_sessions", options, PARAMETERS, _INVENTED)
    return Workload(tuple(requests), {**meta, "input_rows": len(requests)})


def _session(session: int, at_ns: int, options: WorkloadOptions) -> Iterator[WorkRequest]:
    random = stream(options.seed, "agent_sessions", "session", session)
    place = Place("agent_sessions", f"session {session}")
    prompt = _part(Use.BLOCK, 0, options.prefix_tokens, options)
    last: WorkRequest | None = None
    for turn in range(1, options.turns + 1):
        number = (session - 1) * options.turns + turn
        new_tokens = _length(random, options.prompt_tokens if last is None else options.tail_tokens, options)
        prompt += _part(Use.PROMPT, number, new_tokens, options)
        output = _part(Use.OUTPUT, number, _length(random, options.output_tokens, options), options)
        think_ns = sped_up(round(exponential(random, options.think_s) * SECOND_NS), options, place)
        last = WorkRequest(
            request_id=f"session-{session:06d}/turn-{turn:05d}",
            prompt=prompt,
            output=output,
            max_new_tokens=options.max_new_tokens(output[0].length),
            arrival_ns=sped_up(at_ns, options, place) if last is None else None,
            after=None if last is None else last.request_id,
            think_ns=0 if last is None else think_ns,
        )
        prompt += output
        yield last


def _length(random: Random, mean_tokens: int, options: WorkloadOptions) -> int:
    return length_near(random, mean_tokens, options.spread)


def _part(use: Use, number: int, length_tokens: int, options: WorkloadOptions) -> tuple[Span, ...]:
    return (Span(source(use, number), 0, options.scaled(length_tokens)),) if length_tokens else ()
