"""A trigger over HTTP, for programs on the same machine: `POST /trigger` on 127.0.0.1, with the token of the ring."""

from __future__ import annotations

import hmac
import json
import os
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tsviz.trace.ring import TRIGGER_FILE

HTTP_FILE = "http.json"
HEADER = "X-Tsviz-Token"
_HOSTS = frozenset(("127.0.0.1", "localhost"))
_PLAIN = 200


def serve(home: Path, port: int) -> ThreadingHTTPServer:
    """Serve until `shutdown`; port 0 takes a free one. Port and token stand in `http.json`, readable by its owner only.

    Raises OSError when the port is taken.
    """
    token = secrets.token_urlsafe(24)

    class Handler(BaseHTTPRequestHandler):
        """Answers 202 to a trigger with the token, 403 without it, 404 to everything else."""

        server_version, sys_version = "tsviz", ""

        def do_POST(self) -> None:
            """Take a trigger."""
            host = (self.headers.get("Host") or "").rpartition(":")[0] or (self.headers.get("Host") or "")
            given = (self.headers.get(HEADER) or "").encode("utf-8", "replace")
            if host not in _HOSTS or not hmac.compare_digest(given, token.encode()):
                self._answer(403, "expected the token of OUT.ring/http.json")
            elif self.path != "/trigger":
                self._answer(404, "expected POST /trigger")
            else:
                pull(home, "http")
                self._answer(202, "the kept part is being written out")

        def do_GET(self) -> None:
            """Nothing can be read here."""
            self._answer(404, "expected POST /trigger")

        def _answer(self, code: int, words: str) -> None:
            body = (words + "\n").encode()
            self.send_response(code)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    path = home / HTTP_FILE
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump({"port": server.server_address[1], "token": token}, file)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def pull(home: Path, reason: str) -> None:
    """Have the kept part written out, for a reason of one word."""
    draft = home / f"{TRIGGER_FILE}.draft"
    draft.write_text(reason[:_PLAIN])
    draft.replace(home / TRIGGER_FILE)
