"""Importer for the weka agent sessions: one JSON file a session, turns that wait for the turn before.

Ids mean something only inside their session. They stand for full blocks; what follows the last one has no id. A turn
carries the prompt and the answer of the turn before, so both that tail and the answer are read off the next turn's
prompt where it goes on from this one: then pages that a turn generates can be hit by the next. Else they are fresh.
"""

from __future__ import annotations

from pathlib import Path

from tsviz.engine.workloads.blocks import Blocks
from tsviz.engine.workloads.errors import Place
from tsviz.engine.workloads.files import TextFile, file_meta, files_in, read_text
from tsviz.engine.workloads.intake import Intake, meta_of, refuse_window
from tsviz.engine.workloads.model import Span, Workload, WorkRequest, length_of
from tsviz.engine.workloads.options import SECOND_NS, WorkloadOptions
from tsviz.engine.workloads.sources import NUMBER_BITS, Use, cut, source
from tsviz.engine.workloads.weka_schedule import Scheduled, schedule
from tsviz.engine.workloads.weka_session import ID_BITS, Agent, Session, Turn, read_session

_SOURCE = "kv-cache-tester agent traces (weka), github.com/callanjfox/kv-cache-tester, Apache-2.0"
_INVENTED = (
    "the tokens of each block (from its session and id); that sessions start session_gap_s apart; that a prompt's tail "
    "without an id and an output are what the next turn's prompt says at their place (else unlike any other); that a "
    "sub-agent starts at t - duration_ms, and that the turn it comes back to waits for the last of them"
)
_SHARED = "; that the leading tool and system blocks are the same in all sessions, and in all sub-agents"

Bodies = dict[int, tuple[tuple[Span, ...], tuple[Span, ...]]]
"""Row of a session to the spans of its prompt and of its output."""


def load_weka(path: Path, options: WorkloadOptions) -> Workload:
    """Return the requests of one session file, or of a folder's `*.json` in the order of their names.

    `rows` counts requests in file order, those of sub-agents where they stand. Requests come in the order of the
    trace's times. Raises `WorkloadError` for whatever contradicts the format.
    """
    refuse_window("weka", options)
    intake = Intake(options)
    files: list[TextFile] = []
    timed: list[tuple[int, WorkRequest]] = []
    for number, file_path in enumerate(files_in(path, "*.json")):
        left = None if options.rows is None else options.rows - intake.rows
        if left == 0:
            break
        file = read_text(file_path)
        files.append(file)
        if number >> (NUMBER_BITS - ID_BITS):
            raise Place(str(path), "whole folder").error("path", f"at most {number} sessions", "more")
        timed.extend(_session_requests(file, number, left, intake))
    timed.sort(key=lambda pair: pair[0])
    intake.requests.extend(request for _, request in timed)
    invented = _INVENTED + (_SHARED if options.share_system else "")
    meta = meta_of("weka", options, source_line=_SOURCE, invented=invented)
    extra = {"session_gap_s": options.session_gap_s, "share_system": options.share_system, "sessions": len(files)}
    return intake.workload({**meta, **extra, **file_meta(files)})


def _session_requests(file: TextFile, number: int, rows: int | None, intake: Intake) -> list[tuple[int, WorkRequest]]:
    options = intake.options
    lead: dict[int, int] = {}

    def blocks_for(block_tokens: int) -> Blocks:
        return Blocks(
            block_tokens, options.scale, ID_BITS, lambda i: lead.get(i, source(Use.BLOCK, _number(number, i)))
        )

    session, blocks = read_session(file, blocks_for)
    if options.share_system:
        lead.update(_shared_lead(session, blocks))
    bodies: Bodies = {}
    for agent in (session.parent, *(agent for _, agent in session.subagents)):
        _fill_bodies(agent, number, blocks, options, bodies)
    offset_ns = round(number * options.session_gap_s * SECOND_NS)
    return [(s.time_ns, _request(s, bodies, options)) for s in schedule(session, offset_ns, intake, rows)]


def _number(session: int, inside: int) -> int:
    return session << ID_BITS | inside


def _shared_lead(session: Session, blocks: Blocks) -> dict[int, int]:
    """Return the sources of the ids that stand for tools and system prompt, by their place in the prompt."""
    sources: dict[int, int] = {}
    agents = [(Use.SYSTEM, session.parent), *((Use.SUBAGENT_SYSTEM, agent) for _, agent in session.subagents)]
    for use, agent in agents:
        if agent.turns:
            for index, block in enumerate(agent.turns[0].ids[: agent.leading_tokens // blocks.block_tokens]):
                sources.setdefault(block, source(use, index))
    return sources


def _fill_bodies(agent: Agent, session: int, blocks: Blocks, options: WorkloadOptions, bodies: Bodies) -> None:
    following: Turn | None = None
    next_prompt: tuple[Span, ...] = ()
    for turn in reversed(agent.turns):
        full = tuple(blocks.spans(turn.ids))
        carried = following is not None and following.ids[: len(turn.ids)] == turn.ids
        beyond = next_prompt[len(turn.ids) :] if carried else ()
        number = _number(session, turn.row)
        tail_tokens = options.scaled(turn.prompt_tokens) - length_of(full)
        output_tokens = options.scaled(turn.output_tokens)
        tail = _filled(cut(beyond, 0, tail_tokens), tail_tokens, source(Use.PROMPT, number))
        output = _filled(cut(beyond, tail_tokens, output_tokens), output_tokens, source(Use.OUTPUT, number))
        bodies[turn.row] = (full + tail, output)
        following, next_prompt = turn, full + tail


def _filled(known: tuple[Span, ...], length: int, fresh_source: int) -> tuple[Span, ...]:
    missing = length - length_of(known)
    return (*known, Span(fresh_source, 0, missing)) if missing else known


def _request(scheduled: Scheduled, bodies: Bodies, options: WorkloadOptions) -> WorkRequest:
    prompt, output = bodies[scheduled.turn.row]
    return WorkRequest(
        request_id=scheduled.turn.name,
        prompt=prompt,
        output=output,
        max_new_tokens=options.max_new_tokens(length_of(output)),
        arrival_ns=scheduled.arrival_ns,
        after=scheduled.after,
        think_ns=scheduled.think_ns,
    )
