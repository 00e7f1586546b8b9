"""A trace without what its prompts say: identity tokens, new request ids, no free text (architecture.md, section 7).

What survives: how long prompts and answers are, when things happened (not on which day), which prefix pages are equal,
what the scheduler decided and from which config, and the names of its cache groups, which are in the digests. The
decisions of a recording that has them are left out, since `tsviz index` derives them again.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from tsviz.replay.keyframes.book import Keyframe
from tsviz.replay.keyframes.keyframe import keyframe_table, recorded_keyframe
from tsviz.scheduler import compat
from tsviz.scheduler.snapshot import PLAIN, RequestState, Snapshot
from tsviz.trace import digest, layout, privacy
from tsviz.trace.catalogue import CALLS, DECISIONS, PLANS
from tsviz.trace.config import build_config, describe_config
from tsviz.trace.endings import CLOSED, CRASHED, ENDED, REPAIRED, reason_of
from tsviz.trace.errors import CannotRecord, Damaged
from tsviz.trace.identities import Identities
from tsviz.trace.merging import TIMES, first_ns, shifted
from tsviz.trace.reader import Bundle, Part
from tsviz.trace.rounds import BookState
from tsviz.trace.tables import RECORDED
from tsviz.trace.tokens import FULL, IDENTITY
from tsviz.trace.whole import WholePart, last_call, write_whole
from tsviz.version import __version__

NO_KEYFRAME = (
    "it opens and steps, but cannot be re-executed, and `index` derives no decisions; where the whole trace is there,"
    " redact that and slice what comes out"
)
"""What it means that the keyframe of a slice was left out, and what helps."""
ENGINES = frozenset(("tokenspeed-scheduler", "tsviz-twin"))
RULE_SETS = frozenset(("0.1.24",))
CLOCKS = frozenset(("virtual", "monotonic"))
SCHEDULERS = frozenset(("real", "twin"))
ENDS = frozenset(("drained", "max_rounds", "stopped", "stalled", "scheduler_raised", ENDED, CRASHED, REPAIRED, CLOSED))
META = frozenset(("tool", "scheduler", "redacted"))
VERSION = re.compile(r"\d{1,4}(\.\d{1,4}){0,3}")
NODE = re.compile(r"[FPDN]\d{0,6}(-\d{1,6})?")


def write_redacted(bundle: Bundle, out: Path) -> list[str]:
    """Write a bundle at `out` that tells nothing of the prompts of `bundle`; return what was left out, in words.

    Raises CannotRecord when the path is taken or a cache group has a name that tells something, `TraceError`, OSError.
    """
    tables = [_tables(part) for part in bundle.parts]
    begin_ns = begin_of(bundle)
    names = privacy.new_names(set().union(*(privacy.request_ids(found) for found in tables)))
    nodes = _nodes(bundle)
    parts, said = [], []
    for part, found in zip(bundle.parts, tables, strict=True):
        kept = {name: privacy.redacted(RECORDED[name], rows, names) for name, rows in found.items()}
        kept = {name: shifted(name, rows, -begin_ns) for name, rows in kept.items()}
        if part.rows("keyframes"):
            if part.token_mode == FULL:
                said.append(f"{part.node}/{part.rank}: its keyframe, which is full of hashes of prompts: {NO_KEYFRAME}")
            else:
                rounds = part.table("keyframes")["round"].to_pylist()
                kept["keyframes"] = keyframe_table([_renamed(recorded_keyframe(part, at), names) for at in rounds])
        if part.level == DECISIONS:
            said.append(f"{part.node}/{part.rank}: its decisions, which `tsviz index` derives again")
        meta = _part_meta(part, nodes[part.node])
        parts.append(WholePart(meta, kept, part.last_round, last_call(kept["calls"])))
    scheduler = bundle.meta.get("scheduler")
    description = {
        "format": layout.FORMAT, "schema": layout.schema_version(), "tokens": IDENTITY,
        "clock_anchor": {"wall_ns": 0, "monotonic_ns": 0},
        "meta": {
            "tool": f"tsviz {__version__}", "redacted": True,
            "scheduler": scheduler if scheduler in SCHEDULERS else "unknown",
        },
    }  # fmt: skip
    write_whole(out, description, parts, _end(bundle, nodes, begin_ns))
    return said


def begin_of(bundle: Bundle) -> int:
    """Return the first time of a bundle's parts, on a clock that tells how long its machine had been up.

    A virtual clock begins with its run, and tells nothing.
    """
    parts = [part for part in bundle.parts if part.clock != "virtual"]
    return first_ns((name, part.table(name)) for part in parts for name in TIMES) or 0


def _tables(part: Part) -> dict[str, pa.Table]:
    tables = {name: part.table(name) for name in RECORDED if name not in ("keyframes", *privacy.EMPTIED)}
    if part.token_mode == FULL:
        tables |= Identities(part).tables()
    tables["events"] = privacy.without_bootstrap_tokens(tables["events"])
    return tables


def _nodes(bundle: Bundle) -> dict[str, str]:
    """Return new names of nodes, where they are not those that tsviz gives: a node may be named after a machine."""
    known = dict.fromkeys(part.node for part in bundle.parts)
    others = [node for node in known if not NODE.fullmatch(node)]
    free = (name for name in (f"N{number}" for number in range(len(known) + len(others))) if name not in known)
    return {node: node if NODE.fullmatch(node) else next(free) for node in known}


def _part_meta(part: Part, node: str) -> dict[str, Any]:
    path = part.directory / layout.PART_FILE
    try:
        config = describe_config(build_config(compat, part.config))
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise Damaged(path, "config", "one that the scheduler takes", type(error).__name__) from None
    for group in config["cache_groups"]:
        if not privacy.PLAIN_GROUP.fullmatch(group["group_id"]):
            raise CannotRecord(
                f"{path}: a cache group has a name that may tell something; expected {privacy.PLAIN_GROUP.pattern},"
                " since names of groups are in the digests and cannot be changed"
            )
    for place, expected, found in (("digest", {digest.NAME}, part.digest), ("clock", CLOCKS, part.clock)):
        if found not in expected:
            raise Damaged(path, place, " or ".join(sorted(expected)), "another")
    engine, version = part.engine.get("name"), str(part.engine.get("version", ""))
    start = {"starts_at": int(part.meta["starts_at"])} if "starts_at" in part.meta else {}
    return {
        "node": node, "rank": part.rank, "role": config["role"], "config": config,
        "engine": {
            "name": engine if engine in ENGINES else "unknown",
            "version": version if VERSION.fullmatch(version) else "unknown",
        },
        "tokens": IDENTITY, "clock": part.clock,
        "rule_set": part.rule_set if part.rule_set in RULE_SETS else "unknown", "digest": part.digest,
        "level": CALLS if part.level == CALLS else PLANS, **start,
    }  # fmt: skip


def _end(bundle: Bundle, nodes: dict[str, str], begin_ns: int) -> dict[str, Any] | None:
    """Return how a recording ended: counts, and reasons of the closed list."""
    if bundle.end is None:
        return None
    told: dict[str, Any] = {}
    ends = bundle.end.get("parts")
    for part in bundle.parts:
        name = f"{part.node}/{part.rank}"
        found = ends.get(name) if isinstance(ends, dict) else None
        counts = {key: found[key] for key in COUNTS if type(found.get(key)) is int} if isinstance(found, dict) else {}
        if "end_ns" in counts:
            counts["end_ns"] = max(0, counts["end_ns"] - begin_ns)
        reason = reason_of(bundle.end, name)
        told[f"{nodes[part.node]}/{part.rank}"] = counts | {"reason": reason if reason in ENDS else CLOSED}
    return {"parts": told, "error": None if bundle.end.get("error") is None else "the recording failed"}


COUNTS = (
    "aborted", "end_ns", "failed", "finished", "live", "not_arrived", "refused", "rounds", "submitted", "retractions",
    "generated_tokens", "scheduled_rows",
)  # fmt: skip


def _renamed(keyframe: Keyframe, names: dict[str, str]) -> Keyframe:
    """Return a keyframe of identity tokens with new request ids."""
    snapshot, book = keyframe.snapshot, keyframe.book
    for request in snapshot.requests:
        names.setdefault(request.request_id, request.request_id)
    requests = tuple([_request(request, names) for request in snapshot.requests])
    finished = tuple([names[name] for name in snapshot.finished])
    changed: Snapshot = replace(snapshot, requests=requests, finished=finished)
    submissions = {names[name]: known for name, known in book.submissions.items()}
    return replace(keyframe, snapshot=changed, book=BookState(submissions, book.shift, book.owner, book.tables))


def _request(request: RequestState, names: dict[str, str]) -> RequestState:
    plain: dict[str, Any] = dict(zip(PLAIN, request.plain, strict=True))
    new = names[request.request_id]
    if plain["decode_row"] is not None:
        plain["decode_row"] = plain["decode_row"]._replace(request_id=new)
    if plain["refusal"] is not None:
        plain["refusal"] = replace(plain["refusal"], request_id=new)
    if (verdict := plain["verdict"]) is not None:
        holder = names.get(verdict.holder_id, "") if verdict.holder_id else ""
        plain["verdict"] = replace(verdict, request_id=new, holder_id=holder)
    return request._replace(request_id=new, plain=tuple(plain[name] for name in PLAIN))
