"""The server: textual-serve behind the guard, with a page that loads nothing from another host."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import aiohttp_jinja2
from aiohttp import web
from textual_serve.server import Server

from tsviz.tui.serving.guard import LOOPBACK, WORDS, Asked, Guard, Verdict

_TEMPLATES = Path(__file__).parent / "templates"
_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
    "img-src 'self' data:; connect-src 'self' ws://{host}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Nothing but this server, whatever a trace or the page says; no other page may frame it."""

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class GuardedServer(Server):  # type: ignore[misc]
    """Serves one command, a process a browser tab, to whom the guard lets in."""

    def __init__(self, command: Sequence[str], title: str, listening: socket.socket) -> None:
        """`listening` is bound to loopback already, so that the printed address is certain."""
        port = listening.getsockname()[1]
        super().__init__(shlex.join(command), host=LOOPBACK[0], port=port, title=title, templates_path=str(_TEMPLATES))
        self.guard = Guard(port)
        self._listening = listening

    async def _make_app(self) -> web.Application:
        app: web.Application = await super()._make_app()

        async def guarded(request: web.Request, handler: _Handler) -> web.StreamResponse:
            return await self._guarded(request, handler)

        app.middlewares.append(web.middleware(guarded))
        return app

    async def on_startup(self, app: web.Application) -> None:
        """Print nothing: the command does."""

    async def _guarded(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        headers = request.headers
        asked = Asked(
            host=headers.get("Host", ""),
            origin=headers.get("Origin", ""),
            site=headers.get("Sec-Fetch-Site", ""),
            token=request.query.get("token", "") if request.path == "/" else "",
            cookie=request.cookies.get(self.guard.cookie_name, ""),
            websocket=request.path == "/ws",
        )
        match self.guard.judge(asked):
            case Verdict.ALLOWED:
                response = await handler(request)
            case Verdict.ENTERS:
                response = web.Response(status=303, headers={"Location": "/"})
                response.set_cookie(
                    self.guard.cookie_name, self.guard.cookie, httponly=True, samesite="Strict", path="/"
                )
            case refused:
                response = web.Response(status=403, text=WORDS[refused])
        if not response.prepared:
            response.headers["Content-Security-Policy"] = _POLICY.format(host=asked.host)
            response.headers["Referrer-Policy"] = "no-referrer"
            response.headers["X-Content-Type-Options"] = "nosniff"
            response.headers["Cache-Control"] = "no-store"
        return response

    async def handle_index(self, request: web.Request) -> web.StreamResponse:
        """Answer the page; it connects to the loopback name under which it was asked for."""
        context = {"title": self.title, "websocket_url": f"ws://{request.headers['Host']}/ws", "font_size": 16}
        response: web.Response = aiohttp_jinja2.render_template("app_index.html", request, context)
        return response

    def run(self) -> None:
        """Serve until interrupted."""
        web.run_app(self._make_app(), sock=self._listening, print=None, access_log=None)


def listen(port: int) -> socket.socket:
    """Return a socket that listens on loopback; port 0 takes a free one. Raises OSError where it is taken."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((LOOPBACK[0], port))
        found.listen()
    except OSError:
        found.close()
        raise
    return found
