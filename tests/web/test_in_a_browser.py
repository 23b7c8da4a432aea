"""The served screen in a real Chromium: what it draws, what keys do there, and which pages cannot reach it."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import psutil
import pytest

from tests.shell import Shell, opened
from tests.waiting import until
from tests.web.serving import serving

pytest.importorskip("aiohttp")
from tests import browser as browsers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), browsers.needs_chromium]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shell, str]]:
    """A shell whose run goes on for as long as the tests look at it, with a trainer that leaves them the processor."""
    with opened(tmp_path_factory.mktemp("browser")) as shell:
        shell.scripted().environ.update(STUB_UPDATE_S="0.25", STUB_KL="0.01")
        (run,) = shell.launch("tiny", "--name", "cart")
        shell.environ.update(SHELL="/bin/sh", PS1="ready> ")
        shell.advancing(run)
        yield shell, run


@pytest.fixture
async def browser() -> AsyncIterator[browsers.Browser]:
    # `evil.example` is this machine, as the name of an attacker's page may become.
    async with browsers.chromium("--host-resolver-rules=MAP evil.example 127.0.0.1") as made:
        yield made


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that have not ended, whether or not anybody has asked how."""
    return [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


ENDED = """
new Promise(done => setInterval(
  () => getComputedStyle(document.querySelector(".ended")).display == "block" && done(true), 20
))
"""
"""True once the page says that its screen has ended."""


def is_now(shell: Shell, run: str, state: str) -> bool:
    return bool(shell.view(run)["state"] == state)


SILENT = 'getComputedStyle(document.querySelector(".silent")).display == "block"'
QUICKER = "const plain = setInterval; window.setInterval = (act, ms) => plain(act, ms / 20)"


async def test_a_live_run_is_seen_and_read_only_keys_only_look(
    trained: tuple[Shell, str], browser: browsers.Browser, tmp_path: Path
) -> None:
    """Its curve goes on by itself, the first key needs no click, `p` says that nothing is changed here, `?` helps. The
    page asks for nothing that its policy forbids, and is painted. While nobody answers it says that it is old.
    """
    shell, run = trained
    with serving(shell) as server:
        page = await browser.page(1280, 800)
        assert await page.open(server.url) == 200
        await page.shows("cart ")
        assert "read-only" in await page.shows("approx KL")

        def update() -> int:
            return int((re.search(r"update (\d+)  rollout", page.text()) or ["", "0"])[1])

        await page.until(update, "the number of an update")
        before = update()
        await page.until(lambda: update() > before + 3, "more updates")
        assert len(await page.colours()) > 6
        assert [said for said in page.said if "WebGL" not in said] == []
        await page.press("p")
        await page.shows("this screen is read-only")
        await page.press("?")
        await page.shows("Shift-drag selects text")
        await page.press("Escape")
        assert shell.view(run)["state"] == "running"
        assert server.size().columns > 120
        await page.resize(700, 500)
        await page.until(lambda: 60 < server.size().columns < 100, "the terminal has the size of the page")
        await page("Page.addScriptToEvaluateOnNewDocument", source=QUICKER)
        await page.open(server.url)
        await page.shows("cart ")
        server.process.send_signal(signal.SIGSTOP)
        try:
            assert await page.value(f"new Promise(done => setInterval(() => {SILENT} && done(true), 20))")
        finally:
            server.process.send_signal(signal.SIGCONT)
        assert await page.value(f"new Promise(done => setInterval(() => {SILENT} || done(true), 20))")
        await page.close()
        await asyncio.to_thread(until, lambda: not server.screens(), 10, "the screen has gone with its page")
        assert server.interrupt() == ""
    assert shell.view(run)["state"] == "running"


async def test_with_control_keys_act_and_ctrl_c_ends_the_screens_but_no_run(
    trained: tuple[Shell, str], browser: browsers.Browser
) -> None:
    """`p` pauses the run, and `r` goes on with it; `!` opens a shell, and once `q` leaves the screen the page says so,
    while a job of that shell still goes on. Ctrl-C, with the page still open, leaves no process of the server, and one
    that is killed takes its screens with it as well.
    """
    shell, run = trained
    with serving(shell, "--control") as server:
        page = await browser.page()
        await page.open(server.url)
        await page.shows("cart ")
        for key, state in (("p", "paused"), ("r", "running")):
            await page.press(key)
            await asyncio.to_thread(until, partial(is_now, shell, run, state), 20, state)
            await page.shows(state if key == "p" else "cart ")  # pauses stay marked on the chart
        await page.press("!")
        await page.shows("ready> ")
        await page.press(*"sleep 45 & echo $((41 + 1)) up", "Enter")
        await page.shows("42 up")
        await page.press(*"exit", "Enter")
        await page.until(lambda: "ready> " not in page.text(), "the screen again")
        await page.press("q")
        assert await page.value(ENDED)
        await page.open(server.url)
        await page.shows("cart ")
        screens = server.screens()
        assert "worth your account" in await asyncio.to_thread(server.interrupt)
        assert not living(screens)
        assert await page.value(ENDED)
    assert shell.view(run)["state"] == "running"
    with serving(shell) as server:
        page = await browser.page()
        await page.open(server.url)
        await page.shows("cart ")
        screens = server.screens()
        server.process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(until, lambda: not living(screens), 10, "no screen is left")
    assert shell.view(run)["state"] == "running"


REACHING = """
(async () => {
  const said = [];
  const ws = new WebSocket("ws://127.0.0.1:%(port)s/%(token)s/ws?width=80&height=24");
  said.push(await new Promise(done => { ws.onopen = () => done("open"); ws.onerror = () => done("refused"); }));
  said.push(await fetch("http://127.0.0.1:%(port)s/%(token)s/").then(() => "read", () => "refused"));
  for (const kind of ["script", "img"]) {
    const tag = document.createElement(kind);
    const done = new Promise(done => { tag.onload = () => done("loaded"); tag.onerror = () => done("refused"); });
    tag.src = "http://127.0.0.1:%(port)s/%(token)s/static/js/textual.js";
    document.body.append(tag);
    said.push(await done);
  }
  const frame = document.createElement("iframe");
  const loaded = new Promise(done => { frame.onload = done; });
  frame.src = "http://127.0.0.1:%(port)s/%(token)s/";
  document.body.append(frame);
  await loaded;
  return said.join();
})()
"""


class _Page(BaseHTTPRequestHandler):
    """An empty page of somebody else."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<body></body>")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def foreign() -> Iterator[int]:
    """The port of a server that is not ours."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


async def test_foreign_pages_reach_no_screen_even_with_the_token(
    trained: tuple[Shell, str], browser: browsers.Browser, foreign: int
) -> None:
    """Neither one of another host, of another port of this machine, nor one whose name was pointed here; nor does any
    page without the token. A page in a frame is not shown, so it opens no screen.
    """
    shell, _ = trained
    with serving(shell) as server:
        port = int(server.base.rpartition(":")[2])
        page = await browser.page()
        for host in ("evil.example", "127.0.0.1", "localhost"):
            assert await page.open(f"http://{host}:{foreign}/") == 200
            said = await page.value(REACHING % {"port": port, "token": server.token})
            assert said == "refused,refused,refused,refused", host
        assert await page.open(f"http://evil.example:{port}/{server.token}/") == 403
        assert await page.open(f"{server.base}/") == 403
        assert await page.open(f"{server.base}/{'A' * 43}/") == 403
        assert "lacks its token" in await page.value("document.body.innerText")
        assert server.screens() == []
        await page.open(server.url)
        await page.shows("cart ")
        assert len([one for one in server.screens() if "mission_tui.web" in one.cmdline()]) == 1
