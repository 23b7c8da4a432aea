"""Who gets an answer of `mission-tui serve`: a browser with the whole address, and no page but its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.cli.test_json_documents import check
from tests.shell import Shell, opened
from tests.waiting import until
from tests.web.serving import Served, serving

pytest.importorskip("aiohttp")
import aiohttp

from mission_tui.web.server import MOST_SCREENS

pytestmark = [pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of an empty runs root, which starts no supervisor."""
    with opened(tmp_path_factory.mktemp("serve")) as shell, serving(shell) as server:
        yield server


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def status(client: aiohttp.ClientSession, url: str, **headers: str) -> tuple[int, str]:
    """Of a GET; underlines in names of headers are dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.get(url, headers=named) as answer:
        return answer.status, await answer.text()


async def test_the_last_stroke_of_the_address_may_be_missing(served: Served, client: aiohttp.ClientSession) -> None:
    """Whoever copies the address may leave it behind; the page is the same."""
    whole = await status(client, f"{served.base}/{served.token}/")
    assert whole[0] == 200
    assert await status(client, f"{served.base}/{served.token}") == whole


PATHS = ("/", "/ws?width=80&height=24", "/static/js/textual.js", "/static/page.css")


@pytest.mark.parametrize("path", PATHS)
async def test_without_the_token_there_is_nothing(served: Served, client: aiohttp.ClientSession, path: str) -> None:
    """No token, another one, one that lacks its last letter or has one more, in page, WebSocket and files alike."""
    for prefix in ("", f"/{'A' * 43}", f"/{served.token[:-1]}", f"/{served.token}x", f"/x/{served.token}", "/é"):
        said = await status(client, served.base + prefix + path, Origin=served.base)
        assert said[0] == 403, prefix
        assert said[1].startswith("mission-tui: the address lacks its token")


async def test_a_request_without_a_path_is_refused_like_any_other(served: Served) -> None:
    """`OPTIONS *` names no path at all."""
    host, port = served.base.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"OPTIONS * HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
    said = (await reader.read()).decode()
    writer.close()
    assert said.startswith("HTTP/1.1 403"), said
    assert "the address lacks its token" in said


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "10.0.0.1:{port}", ""]
)
async def test_a_name_that_is_not_of_this_machine_is_refused(
    served: Served, client: aiohttp.ClientSession, path: str, host: str
) -> None:
    """A foreign page whose name was pointed at 127.0.0.1 (DNS rebinding) is of the same origin as what it asks for."""
    named = host.format(port=served.base.rpartition(":")[2])
    said = await status(client, f"{served.base}/{served.token}{path}", Host=named, Origin=f"http://{named}")
    assert said == (
        403,
        "mission-tui: this is not an address of this machine: open the one that `mission-tui serve` printed\n",
    )


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://localhost:{port}"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
    ],
)
async def test_another_page_gets_nothing_even_with_the_token(
    served: Served, client: aiohttp.ClientSession, path: str, headers: dict[str, str]
) -> None:
    """Of another machine, of another port of this one, or of nowhere; a browser says so by itself."""
    port = served.base.rpartition(":")[2]
    said = await status(
        client,
        f"{served.base}/{served.token}{path}",
        **{name: value.format(port=port) for name, value in headers.items()},
    )
    assert said == (
        403,
        "mission-tui: another page asked for this: open the address that `mission-tui serve` printed\n",
    )


async def test_the_whole_address_opens_a_page_that_asks_nobody_else(
    served: Served, client: aiohttp.ClientSession
) -> None:
    """Its files are its own, no page may frame it, no link tells where it came from, and nothing of it is kept. Under
    `ssh -L` it has another port, which is then in the address of its WebSocket.
    """
    for host in (served.base.removeprefix("http://"), "localhost:8123", "[::1]:9", "127.0.0.1"):
        async with client.get(served.url, headers={"Host": host, "Sec-Fetch-Site": "none"}) as page:
            assert page.status == 200
            text = await page.text()
            assert f'data-session-websocket-url="ws://{host}/{served.token}/ws"' in text
            assert "https://" not in text
            policy = page.headers["Content-Security-Policy"]
            assert "default-src 'none'; script-src 'self';" in policy
            assert f"connect-src ws://{host};" in policy
            assert "frame-ancestors 'none'" in policy
            assert (page.headers["Referrer-Policy"], page.headers["Cache-Control"]) == ("no-referrer", "no-store")
            assert page.headers["X-Content-Type-Options"] == "nosniff"
            assert "Set-Cookie" not in page.headers
    for path in ("/static/", "/static/../server.py", "/static/%2e%2e/server.py", "/static/js/", "/download/x", "/x"):
        assert (await status(client, f"{served.base}/{served.token}{path}"))[0] in (403, 404), path
    assert (await status(client, f"{served.base}/{served.token}/static/js/textual.js"))[1].count("new WebSocket") == 1


async def test_nothing_but_the_scripts_messages_reaches_a_screen(served: Served, client: aiohttp.ClientSession) -> None:
    """Anything else ends that one connection and its screen; the server goes on for the others. One without an origin,
    which no browser opens, gets no screen.
    """
    address = f"{served.base}/{served.token}/ws?width=90&height=x"
    with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
        await client.ws_connect(address)
    strange: list[str | bytes] = [b"\x00", "{", "[]", '{"a": 1}', '["stdin"]', '["stdin", 1]']
    strange += ['["resize", {"width": "9", "height": 9}]', json.dumps(["stdin", "x" * (1 << 18)])]
    for message in strange:
        async with client.ws_connect(address, origin=served.base, max_msg_size=0) as socket:
            await (socket.send_bytes(message) if isinstance(message, bytes) else socket.send_str(message))
            async with asyncio.timeout(20):
                async for _ in socket:
                    pass
            assert socket.close_code in (1007, 1009), message
    async with client.ws_connect(address, origin=served.base) as socket:
        for size in ({"width": 10**9, "height": -5}, {"width": 0, "height": 0}, {"width": 80, "height": 24}):
            await socket.send_json(["resize", size])
        await socket.send_json(["ping", "12"])
        async with asyncio.timeout(20):
            said = [message async for message in _until_pong(socket)]
        assert said[-1] == '["pong", "12"]'
    await asyncio.to_thread(until, lambda: not served.screens(), 10, "the screens have gone with their browsers")


async def _until_pong(socket: aiohttp.ClientWebSocketResponse) -> AsyncIterator[object]:
    async for message in socket:
        yield message.data
        if message.type is aiohttp.WSMsgType.TEXT:
            return


@pytest.mark.slow
async def test_there_are_never_more_screens_than_four(served: Served, client: aiohttp.ClientSession) -> None:
    """A fifth browser is told so; once one of the others has gone there is room again."""
    address = f"{served.base}/{served.token}/ws"
    open_ = [await client.ws_connect(address, origin=served.base) for _ in range(MOST_SCREENS)]
    fifth = await client.ws_connect(address, origin=served.base)
    message = await fifth.receive(timeout=20)
    assert b"4 screens are open already" in message.data
    assert len([one for one in served.screens() if "mission_tui.web" in one.cmdline()]) == MOST_SCREENS
    await open_.pop().close()
    again = await client.ws_connect(address, origin=served.base)
    assert b"\x1b[?1049h" in (await again.receive(timeout=20)).data
    for socket in (*open_, again, fifth):
        await socket.close()
    await asyncio.to_thread(until, lambda: not served.screens(), 10, "the screens have gone with their browsers")


def test_the_token_is_in_no_list_of_processes_and_in_no_log(tmp_path: Path) -> None:
    """Only the line that names the address has it: not the words or variables of any process, not stderr, no file. Nor
    does a request that is no HTTP leave a trace.
    """
    import socket
    from urllib.request import urlopen

    with opened(tmp_path) as shell, serving(shell) as server:
        with urlopen(server.url) as page:
            assert page.status == 200
        port = int(server.base.rpartition(":")[2])
        for junk in (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            f"GET /{server.token}/ HTTP/9.9\r\n\r\n".encode(),
        ):
            with socket.create_connection(("127.0.0.1", port)) as line:
                line.sendall(junk + b"\r\n\r\n")
                line.recv(1000)
        shown = Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
        shown += Path(f"/proc/{server.process.pid}/environ").read_bytes()
        assert server.token.encode() not in shown
        assert server.interrupt() == ""
        kept = [path for path in tmp_path.rglob("*") if path.is_file() and server.token.encode() in path.read_bytes()]
        assert kept == []


def test_what_cannot_be_served_is_said_in_one_line(tmp_path: Path) -> None:
    """A port that is taken, and `--control` of what is only looked at; what is served is said in one document."""
    with opened(tmp_path) as shell, serving(shell) as server:
        check("serve", server.document)
        taken = shell("serve", "--port", server.base.rpartition(":")[2])
        assert taken.returncode == 69
        assert "cannot be had (Address already in use): give another one with --port" in taken.stderr
        both = shell("--readonly", "serve", "--control")
        assert both.returncode == 2
        assert "give one of them" in both.stderr


def test_without_its_packages_it_names_the_extra(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with what to install."""
    monkeypatch.setitem(__import__("sys").modules, "mission_tui.web.server", None)
    done = shell.typed("serve")
    assert done.returncode == 69
    assert "pip install -c constraints.txt -e '.[serve]'" in done.stderr
