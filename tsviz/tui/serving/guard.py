"""Who may use a served debugger: whoever has the printed address, once, and then whoever has the cookie it gave.

The bridge that serves the screens starts a process for everybody who asks. Three things are asked of every request, of
the websocket as of the pages: that it names this very server (a foreign name that resolves to loopback is refused),
that no page of another origin made it, and that it carries the cookie. The cookie is given once, for the token of the
printed address; the token is worth nothing afterwards.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from enum import Enum, auto

LOOPBACK = ("127.0.0.1", "localhost")


class Verdict(Enum):
    """What becomes of a request: answered, given the cookie and sent to `/`, or refused for a reason."""

    ALLOWED = auto()
    ENTERS = auto()
    FOREIGN_HOST = auto()
    FOREIGN_ORIGIN = auto()
    NO_COOKIE = auto()
    USED = auto()


WORDS = {
    Verdict.FOREIGN_HOST: "This server answers under its own loopback address only.",
    Verdict.FOREIGN_ORIGIN: "Another page asked for this.",
    Verdict.NO_COOKIE: "Open the address that tsviz serve printed.",
    Verdict.USED: "This address was used already: it opens the debugger once. Start tsviz serve again for another.",
}
"""What a refused request is told."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a request is looked at; an empty text is a header that did not come."""

    host: str
    origin: str
    site: str
    """Header Sec-Fetch-Site."""
    token: str
    cookie: str
    websocket: bool


class Guard:
    """Judges requests to the server on `port`."""

    def __init__(self, port: int) -> None:
        """Make a token and a cookie that nobody can guess."""
        self.token = secrets.token_urlsafe(32)
        self.cookie = secrets.token_urlsafe(32)
        self.cookie_name = f"tsviz_{port}"
        self.address = f"http://{LOOPBACK[0]}:{port}/?token={self.token}"
        self._hosts = frozenset(f"{host}:{port}" for host in LOOPBACK)
        self._used = False

    def judge(self, asked: Asked) -> Verdict:
        """Return what becomes of a request. The token is used up by the first request that may enter with it."""
        if asked.host not in self._hosts:
            return Verdict.FOREIGN_HOST
        if asked.origin != f"http://{asked.host}" and (asked.websocket or asked.origin):
            return Verdict.FOREIGN_ORIGIN
        knows = hmac.compare_digest(asked.cookie.encode(), self.cookie.encode())
        if asked.site in ("cross-site", "same-site") and not asked.token:
            return Verdict.FOREIGN_ORIGIN
        if knows and not asked.token:
            return Verdict.ALLOWED
        if asked.token and not asked.websocket and hmac.compare_digest(asked.token.encode(), self.token.encode()):
            if self._used:
                return Verdict.ENTERS if knows else Verdict.USED
            self._used = True
            return Verdict.ENTERS
        return Verdict.NO_COOKIE
