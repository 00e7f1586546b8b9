"""The debugger in a browser: who is let in, by a client and by a real browser where there is one."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tsviz.spawn import python_command, python_environment
from tsviz.tui.serving.guard import WORDS, Asked, Guard, Verdict

if TYPE_CHECKING:
    from tsviz.tui.serving.server import GuardedServer

INCIDENT = Path(__file__).parents[2] / "traces" / "retract-and-grant"
OWN = Asked("127.0.0.1:8765", "", "none", "", "", False)


def test_the_token_is_worth_one_visit() -> None:
    """Whoever comes first with it enters; without a cookie nobody enters with it again."""
    guard = Guard(8765)
    assert guard.judge(OWN) is Verdict.NO_COOKIE
    assert guard.judge(replace(OWN, token="guess")) is Verdict.NO_COOKIE
    entering = replace(OWN, token=guard.token)
    assert guard.judge(entering) is Verdict.ENTERS
    assert guard.judge(entering) is Verdict.USED
    assert guard.judge(replace(OWN, cookie=guard.cookie)) is Verdict.ALLOWED
    assert guard.judge(replace(entering, cookie=guard.cookie)) is Verdict.ENTERS
    assert guard.judge(replace(OWN, cookie=guard.token)) is Verdict.NO_COOKIE


@pytest.mark.parametrize("host", ["", "evil.example", "evil.example:8765", "127.0.0.1", "127.0.0.1:80", "[::1]:8765"])
def test_another_name_of_this_machine_is_refused(host: str) -> None:
    """A name that was made to resolve to loopback (DNS rebinding) reaches no page, with or without a cookie."""
    guard = Guard(8765)
    for cookie in ("", guard.cookie):
        assert guard.judge(replace(OWN, host=host, cookie=cookie)) is Verdict.FOREIGN_HOST
    assert guard.judge(replace(OWN, host=host, token=guard.token)) is Verdict.FOREIGN_HOST


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "https://127.0.0.1:8765"])
def test_another_origin_is_refused(origin: str) -> None:
    """Also with the cookie, also from another port of this machine; a websocket without an origin is refused too."""
    guard = Guard(8765)
    known = replace(OWN, cookie=guard.cookie)
    for websocket in (False, True):
        assert guard.judge(replace(known, origin=origin, websocket=websocket)) is Verdict.FOREIGN_ORIGIN
    assert guard.judge(replace(known, websocket=True)) is Verdict.FOREIGN_ORIGIN
    assert guard.judge(replace(known, websocket=True, origin="http://127.0.0.1:8765")) is Verdict.ALLOWED
    assert guard.judge(replace(known, site="cross-site")) is Verdict.FOREIGN_ORIGIN
    assert guard.judge(replace(known, host="localhost:8765", origin="http://localhost:8765")) is Verdict.ALLOWED


def test_every_refusal_says_why() -> None:
    """A person who is refused reads a sentence, not a number."""
    assert set(WORDS) == set(Verdict) - {Verdict.ALLOWED, Verdict.ENTERS}


@asynccontextmanager
async def served(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GuardedServer]:
    """Serve an incident on a free port."""
    pytest.importorskip("textual_serve", reason="the extra `serve` is not installed")
    from aiohttp import web

    from tsviz.tui.serving.server import GuardedServer, listen

    for name, value in python_environment().items():
        monkeypatch.setenv(name, value)
    listening = listen(0)
    server = GuardedServer([*python_command("tsviz"), "open", f"{INCIDENT}@101"], "tsviz <b>retract", listening)
    runner = web.AppRunner(await server.application())
    await runner.setup()
    await web.SockSite(runner, listening).start()
    try:
        yield server
    finally:
        await runner.cleanup()


async def test_pages_are_behind_the_cookie(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it everything is 403; the address gives it once, and the page holds no address of another host."""
    async with served(monkeypatch) as server:
        from aiohttp import ClientSession, CookieJar

        base = f"http://127.0.0.1:{server.port}"
        async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as mine, ClientSession() as other:
            for path in ("/", "/ws", "/static/js/textual.js", "/static/", "/download/x", "/nothing"):
                async with other.get(base + path) as refused:
                    assert refused.status == 403, path
            async with mine.get(server.guard.address, allow_redirects=False) as entered:
                assert (entered.status, entered.headers["Location"]) == (303, "/")
                cookie = entered.headers["Set-Cookie"]
                assert "HttpOnly" in cookie
                assert "SameSite=Strict" in cookie
            async with other.get(server.guard.address) as late:
                assert (late.status, await late.text()) == (403, WORDS[Verdict.USED])
            async with mine.get(base + "/") as page:
                text = await page.text()
                assert page.status == 200
                assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
                assert "tsviz &lt;b&gt;retract" in text
                assert "https://" not in text
                assert "googleapis" not in text
            async with mine.get(base + "/static/fonts/RobotoMono-VariableFont_wght.ttf") as font:
                assert font.status == 200
            async with mine.get(base + "/", headers={"Host": f"evil.example:{server.port}"}) as foreign:
                assert foreign.status == 403
            async with mine.get(base + "/", headers={"Origin": "http://evil.example"}) as foreign:
                assert foreign.status == 403


async def test_the_websocket_starts_a_debugger_for_its_own_page_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Foreign origin, no origin, no cookie: 403 and no process. With both: the screen of the debugger comes."""
    async with served(monkeypatch) as server:
        from aiohttp import ClientSession, CookieJar, WSServerHandshakeError

        url, own = f"http://127.0.0.1:{server.port}/ws?width=100&height=30", f"http://127.0.0.1:{server.port}"
        async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as mine, ClientSession() as other:
            async with mine.get(server.guard.address) as entered:
                assert entered.status == 200
            for session, headers in (
                (mine, {"Origin": "http://evil.example"}), (mine, {}), (other, {"Origin": own}),
                (mine, {"Origin": own, "Host": "evil.example"}),
            ):  # fmt: skip
                with pytest.raises(WSServerHandshakeError) as refused:
                    await session.ws_connect(url, headers=headers)
                assert refused.value.status == 403
            async with mine.ws_connect(url, headers={"Origin": own}) as socket:
                seen = await seen_on(socket, b"retract-and-grant")
                assert b"r6" in seen


async def seen_on(socket: Any, wanted: bytes) -> bytes:
    """Return what came over a websocket until something is in it."""
    seen = b""
    async with asyncio.timeout(60):
        while wanted not in seen or b"r6" not in seen:
            message = await socket.receive()
            assert isinstance(message.data, bytes | str), f"closed: {seen!r}"
            seen += message.data if isinstance(message.data, bytes) else message.data.encode()
    return seen


async def test_in_a_real_browser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Chromium opens the printed address, draws the debugger, keys reach it, and no other host is asked."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no chromium on this machine")
    playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
    async with served(monkeypatch) as server, playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1200, "height": 760})
        asked: list[str] = []
        errors: list[str] = []
        frames: list[bytes] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
        page.on("websocket", lambda ws: ws.on("framereceived", lambda data: frames.append(as_bytes(data))))
        await page.goto(server.guard.address)
        await page.wait_for_selector("body.-first-byte", timeout=60_000)
        await until(lambda: b"r6" in b"".join(frames))  # the header names the trace before it is open
        drawn = len(frames)
        await page.locator("textarea").first.focus()
        await page.keyboard.press("m")
        await until(lambda: b"parents" in b"".join(frames[drawn:]))
        await page.wait_for_timeout(500)
        picture = await page.screenshot(path=str(tmp_path / "served.png"))
        assert len(set(picture)) > 100
        assert page.url == f"http://127.0.0.1:{server.port}/"
        assert {url.split("/")[2] for url in asked if not url.startswith("data:")} == {f"127.0.0.1:{server.port}"}
        assert errors == []
        await browser.close()


def as_bytes(data: bytes | str) -> bytes:
    """Return a frame as bytes."""
    return data if isinstance(data, bytes) else data.encode()


async def until(holds: Any) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.1)
