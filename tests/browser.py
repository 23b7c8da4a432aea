"""Chromium without a window, as tests drive it: by the DevTools protocol, over the WebSocket client of aiohttp."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pyte
import pytest

from tests.waiting import until

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
WORDS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
]
COLUMNS, ROWS = 200, 60
"""More than a page has cells: a screen is drawn from its upper left corner."""
_CODES = {"Enter": 13, "Escape": 27}

_COLOURS = """
(async () => {
  const picture = new Image();
  picture.src = "data:image/png;base64,%s";
  await picture.decode();
  const canvas = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
  canvas.drawImage(picture, 0, 0);
  const {data} = canvas.getImageData(0, 0, picture.width, picture.height);
  const found = new Set();
  for (let at = 0; at < data.length; at += 4 * 7) found.add(data.slice(at, at + 3).join());
  return [...found];
})()
"""


class Page:
    """A tab. `status` is that of the newest document, `said` what the console shows of errors; `text()` is what a
    terminal shows of all that came by WebSocket.
    """

    def __init__(self, link: aiohttp.ClientWebSocketResponse) -> None:
        self._link = link
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._news = asyncio.Event()
        self._terminal = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self._terminal)
        self._loaded = False
        self.status = 0
        self.frames = 0
        self.said: list[str] = []
        self._reading = asyncio.create_task(self._read())

    async def __call__(self, method: str, **parameters: Any) -> Any:
        """One command of the protocol, and its result."""
        number = next(self._ids)
        self._answers[number] = asyncio.get_running_loop().create_future()
        await self._link.send_json({"id": number, "method": method, "params": parameters})
        return await asyncio.wait_for(self._answers[number], 30)

    async def open(self, url: str) -> int:
        """Load `url`; the status of the answer."""
        self._loaded, self.status = False, 0
        await self("Page.navigate", url=url)
        await self.until(lambda: self._loaded, f"loaded {url}")
        return self.status

    async def value(self, expression: str) -> Any:
        """The value of an expression of JavaScript in the page, awaited."""
        said = await self("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    async def press(self, *keys: str) -> None:
        """Type, by the browser's own events: what has the focus there gets it."""
        for key in keys:
            words = {"key": key} | ({"windowsVirtualKeyCode": _CODES[key]} if key in _CODES else {"text": key})
            await self("Input.dispatchKeyEvent", type="keyDown", **words)
            await self("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def resize(self, width: int, height: int) -> None:
        """Give the window another size."""
        size = {"width": width, "height": height}
        await self("Emulation.setDeviceMetricsOverride", **size, deviceScaleFactor=1, mobile=False)

    async def colours(self) -> set[str]:
        """Of the pixels that are painted, at points all over the page."""
        picture = (await self("Page.captureScreenshot"))["data"]
        return set(await self.value(_COLOURS % picture))

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._terminal.display)

    async def shows(self, words: str) -> str:
        """Wait for a screen with `words`; all of it."""
        await self.until(lambda: words in self.text(), words)
        return self.text()

    async def until(self, what: Callable[[], Any], named: str) -> None:
        """Wait until `what` is so, looking again at each word of the browser."""
        deadline = asyncio.get_running_loop().time() + 20
        while not what():
            self._news.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._news.wait()
            except TimeoutError:
                raise AssertionError(f"not within 20 s: {named}\n{self.text()}\n{self.said}") from None

    async def close(self) -> None:
        """Close the tab."""
        await self("Page.close")
        await self._reading

    async def _read(self) -> None:
        async for message in self._link:
            told = message.json()
            if "id" in told:
                answer = self._answers.pop(told["id"])
                if "error" in told:
                    answer.set_exception(AssertionError(told["error"]["message"]))
                else:
                    answer.set_result(told["result"])
            else:
                self._hear(told["method"], told["params"])
            self._news.set()

    def _hear(self, method: str, told: Any) -> None:
        match method:
            case "Page.loadEventFired":
                self._loaded = True
            case "Network.responseReceived" if told["type"] == "Document":
                self.status = told["response"]["status"]
            case "Network.webSocketFrameReceived" if told["response"]["opcode"] == 2:
                self.frames += 1
                self._stream.feed(base64.b64decode(told["response"]["payloadData"]))
            case "Log.entryAdded":
                self.said.append(told["entry"]["text"])
            case "Runtime.exceptionThrown":
                self.said.append(told["exceptionDetails"]["exception"].get("description", ""))


class Browser:
    """One Chromium; it has nothing of anybody's, and keeps nothing."""

    def __init__(self, port: int, web: aiohttp.ClientSession) -> None:
        self._port, self._web = port, web

    async def page(self, width: int = 1280, height: int = 800) -> Page:
        """A new tab of this size."""
        async with self._web.put(f"http://127.0.0.1:{self._port}/json/new?about:blank") as answer:
            address = (await answer.json(content_type=None))["webSocketDebuggerUrl"]
        page = Page(await self._web.ws_connect(address, max_msg_size=0))
        for domain in ("Page", "Network", "Runtime", "Log"):
            await page(f"{domain}.enable")
        await page.resize(width, height)
        await page("Emulation.setFocusEmulationEnabled", enabled=True)
        return page


@asynccontextmanager
async def chromium(*words: str) -> AsyncIterator[Browser]:
    """A browser for the block; what it started ends with it."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        argv = [CHROMIUM, *WORDS, f"--user-data-dir={profile}", *words, "about:blank"]
        environ = os.environ | {"TMPDIR": profile}  # it leaves a folder there
        process = subprocess.Popen(  # noqa: ASYNC220 - at once
            argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ
        )
        try:
            said = Path(profile, "DevToolsActivePort")
            port = await asyncio.to_thread(until, lambda: said.exists() and said.read_text().partition("\n")[0], 60)
            async with aiohttp.ClientSession() as web:
                yield Browser(int(port), web)
        finally:
            process.terminate()
            process.wait(20)
