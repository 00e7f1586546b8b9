"""The server: textual-serve behind the guard, with a page that loads nothing from another host.

The bridge and its web framework are an extra (`serve`); they are imported when a server is made.
"""

from __future__ import annotations

import asyncio
import shlex
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tsviz.tui.serving.guard import LOOPBACK, WORDS, Asked, Guard, Verdict

if TYPE_CHECKING:
    from aiohttp import web
    from textual_serve.app_service import AppService

_TEMPLATES = Path(__file__).parent / "templates"
_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
    "img-src 'self' data:; connect-src 'self' ws://{host}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Nothing but this server, whatever a trace or the page says; no other page may frame it."""

_Handler = Callable[["web.Request"], Awaitable["web.StreamResponse"]]


class GuardedServer:
    """Serves one command, a process a browser tab, to whom the guard lets in."""

    def __init__(self, command: Sequence[str], title: str, listening: socket.socket) -> None:
        """`listening` is bound to loopback already, so that the printed address is certain.

        Raises ImportError where the extra is not installed.
        """
        from textual_serve.server import Server

        self.port: int = listening.getsockname()[1]
        self.guard = Guard(self.port)
        self._title, self._listening = title, listening
        self._bridge = Server(
            shlex.join(command), host=LOOPBACK[0], port=self.port, title=title, templates_path=str(_TEMPLATES)
        )
        self._bridge.handle_index = self._index
        self._bridge.on_startup = _say_nothing
        self._speak = self._bridge._process_messages
        self._bridge._process_messages = self._speaking
        self._tabs: dict[object, AppService] = {}

    async def application(self) -> web.Application:
        """Return the bridge's routes with the guard in front of every one."""
        from aiohttp import web

        app: web.Application = await self._bridge._make_app()

        async def guarded(request: web.Request, handler: _Handler) -> web.StreamResponse:
            return await self._guarded(request, handler)

        app.middlewares.append(web.middleware(guarded))
        return app

    async def _guarded(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        from aiohttp import web

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
                try:
                    response = await handler(request)
                finally:
                    await self._part_with(self._tabs.pop(asyncio.current_task(), None))
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

    async def _speaking(self, websocket: web.WebSocketResponse, tab: AppService) -> None:
        """Remember whose process a websocket speaks to."""
        self._tabs[asyncio.current_task()] = tab
        await self._speak(websocket, tab)

    async def _part_with(self, tab: AppService | None) -> None:
        """Wait for the process of a tab that is closed, and close the pipe to it, which the bridge leaves open."""
        process = None if tab is None else tab._process
        if process is not None:
            process.stdin.close()
            await process.wait()

    async def _index(self, request: web.Request) -> web.StreamResponse:
        """Answer the page; it connects to the loopback name under which it was asked for."""
        import aiohttp_jinja2

        context = {"title": self._title, "websocket_url": f"ws://{request.headers['Host']}/ws", "font_size": 16}
        response: web.Response = aiohttp_jinja2.render_template("app_index.html", request, context)
        return response

    def run(self) -> None:
        """Serve until interrupted."""
        from aiohttp import web

        web.run_app(self.application(), sock=self._listening, print=None, access_log=None)


async def _say_nothing(_app: web.Application) -> None:
    """In place of the bridge's banner: the command prints the address."""


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
