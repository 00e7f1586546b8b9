"""A node's link to the other one, before anything is written: it is there, and it can be paired with."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, NamedTuple

from tsviz.engine.configs import Role

from .exit_codes import CliError, ExitCode
from .output import tell

if TYPE_CHECKING:
    from tsviz.cli.model_setup import ModelSetup
    from tsviz.engine.intake import Gate
    from tsviz.executor.wire import Wire

_MOST_PORT = 65_535


def address_of(peer: str) -> tuple[str, int]:
    """Return host and port of a --peer. Raises CliError."""
    host, _, port = peer.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or not 1 <= int(port[:6]) <= _MOST_PORT:
        raise CliError(ExitCode.USAGE, f"--peer: expected HOST:PORT with a port from 1 to {_MOST_PORT}, found {peer!r}")
    return host, int(port)


def _tell_other(did: str) -> None:
    tell(f"{did}: that is no node of a pair; still waiting for node D")


class Peer(NamedTuple):
    """The wire to a peer that this node is paired with, and whom both let in."""

    wire: Wire
    gate: Gate


def connected(setup: ModelSetup) -> Peer | None:
    """Return the peer that is there and can be paired with; None for an engine of its own. Raises CliError."""
    if setup.node == "F":
        return None
    from tsviz.executor.greeting import OtherPeer, Unlike, common_gate, facts_of, hear, say
    from tsviz.executor.meeting import CONNECT_SECONDS, connect, listen

    host, port = address_of(setup.options["peer"])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # there is no round yet that it could end behind
    try:
        wire = listen(host, port, _tell_other) if setup.node == "P" else connect(host, port)
    except (TimeoutError, ConnectionRefusedError) as error:
        refused = isinstance(error, ConnectionRefusedError)
        who = "nobody connected" if setup.node == "P" else "nobody listened" if refused else "nobody answered"
        raise CliError(
            ExitCode.USAGE, f"--peer {host}:{port}: {who} within {CONNECT_SECONDS:.0f} s",
            "start both nodes, P and D, with the same --peer",
        ) from error  # fmt: skip
    except (OSError, UnicodeError) as error:
        why = str(getattr(error, "strerror", None) or error).partition(" (while ")[0]
        raise CliError(ExitCode.USAGE, f"--peer {host}:{port}: {why}") from error
    finally:
        signal.signal(signal.SIGINT, before)
    facts = facts_of(setup.sized, setup.loaded.model, setup.draft)
    say(wire, facts, setup.most_tokens)
    try:
        of_peer = hear(wire, facts)
    except OtherPeer as error:
        wire.close()
        other = "D" if setup.node == "P" else "P"
        same = "give both nodes the same options and the same model"
        hint = same if isinstance(error, Unlike) else f"is it node {other} that is at the other end?"
        raise CliError(ExitCode.USAGE, f"--peer {host}:{port}: {error}", hint) from error
    width = max(1, setup.sized.scheduler.decode_input_tokens)
    return Peer(wire, common_gate(Role(setup.node), setup.most_tokens, of_peer, width))
