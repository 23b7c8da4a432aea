"""A policy at play, from a real training to a frame on the screen: its process, who may ask for it, and how it ends."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.process_limits import ProcessLimits
from mission_tui.fleet.views.played_frame import Canvas, PlayedFrame, PlayOrder
from mission_tui.ipc.async_client import AsyncConnection
from mission_tui.ipc.client import Connection
from mission_tui.ipc.client_environment import Origin
from mission_tui.ipc.requests import Play, StopPlay
from mission_tui.tui.app import MissionApp
from mission_tui.tui.screens.run import RunScreen
from tests.shell import Shell, opened
from tests.tui.stage import UTF8, resolve
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

FOLDERS: set[Path] = set()
"""What tells the processes of this file from others, which may be playing at the same time."""
ORDER = PlayOrder(canvas=Canvas(columns=40, lines=12))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A runs root with one finished run of CartPole that has several checkpoints.

    Its players are forks of a preloader, until a test kills that with its supervisor; then they are started anew.
    """
    with opened(tmp_path_factory.mktemp("watch")) as opening:
        shell = opening.preloaded()
        shell.root.mkdir()
        FOLDERS.add(shell.cwd)
        words = ("run.total_timesteps=2048", "keep.checkpoint.every_steps=512", "keep.checkpoint.last=4")
        settings = [word for setting in words for word in ("--set", setting)]
        assert shell("launch", "tiny", "--name", "cart", *settings, timeout_s=120).returncode == 0
        assert shell("wait", "cart", timeout_s=120).returncode == 0
        yield shell


def players() -> list[psutil.Process]:
    """The living processes that play here."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            named = "".join(process.cmdline()[:1]).startswith("mission-tui watch of ")
            if named and Path(process.cwd()) in FOLDERS and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def frame(connection: Connection, checkpoint: str | None = None) -> PlayedFrame:
    return connection.ask(lambda id_: Play(id=id_, run="cart", order=ORDER, checkpoint=checkpoint)).frame


def no_player() -> bool:
    return not players()


def test_a_player_is_a_small_process_that_ends_with_who_asked(trained: Shell) -> None:
    """Niced, one thread of torch's, no GPU; it ends when it is told to, and when the connection goes."""
    with Connection.connect(trained.root, start=True) as connection:
        assert [frame(connection).step for _ in range(3)] == [0, 1, 2]
        (player,) = players()
        assert player.nice() >= 10
        assert player.environ()["CUDA_VISIBLE_DEVICES"] == ""
        assert player.rlimit(psutil.RLIMIT_DATA)[0] == 4 << 30
        before = player.cpu_times()
        connection.ask(lambda id_: StopPlay(id=id_))
        until(no_player, 10, "ended when told to")
        assert frame(connection).step == 0
        assert before.user > 0
    until(no_player, 10, "ended with its connection")


def test_another_checkpoint_is_played_by_the_same_process(trained: Shell) -> None:
    """What takes seconds is not done again; one that is not there is refused with those that are."""
    with Connection.connect(trained.root, start=True) as connection:
        newest = frame(connection).checkpoint
        (player,) = players()
        names = sorted(path.name for path in next(trained.root.glob("*cart*")).joinpath("checkpoints").iterdir())
        kept = [name for name in names if name.isdigit()]
        oldest = frame(connection, kept[0])
        assert (oldest.checkpoint, oldest.step, newest) == (kept[0], 0, kept[-1])
        assert players() == [player]
        with pytest.raises(UsageError, match=r"has no checkpoint '7'"):
            frame(connection, "7")
    until(no_player, 10, "ended with its connection")


def test_a_killed_player_is_a_sentence_and_the_next_question_starts_another(trained: Shell) -> None:
    """The supervisor goes on."""
    with Connection.connect(trained.root, start=True) as connection:
        frame(connection)
        (player,) = players()
        player.send_signal(signal.SIGKILL)
        with pytest.raises(MissionError, match=r"mission_tui.trainer.playing.watch ended with signal 9"):
            frame(connection)
        assert frame(connection).step == 0


def test_nothing_runs_ahead_of_who_asks(trained: Shell) -> None:
    """Between two questions the player uses no processor time, however long that takes."""
    with Connection.connect(trained.root, start=True) as connection:
        for _ in range(3):
            frame(connection)
        (player,) = players()
        used: list[float] = []

        def at_rest() -> bool:
            used.append(sum(player.cpu_times()[:2]))
            return len(used) > 20 and used[-1] == used[-20]

        until(at_rest, 20, "it waits")
        assert frame(connection).step == 3


def test_it_dies_with_its_supervisor(trained: Shell) -> None:
    """Killed, not asked: the kernel sees to it."""
    with Connection.connect(trained.root, start=True) as connection:
        frame(connection)
        (player,) = players()
        parent = player.parent()
        assert parent is not None
        parent.kill()
        until(no_player, 10, "it died with its supervisor")


async def test_the_tab_plays_a_real_policy_and_leaves_nothing(trained: Shell) -> None:
    """From the key to the picture, and back: no process stays when the tab is left."""
    assert trained("status").returncode == 0
    origin = Origin(cwd=str(trained.cwd), python="python", environ=dict(trained.environ), limits=ProcessLimits())
    app = MissionApp(AsyncConnection(trained.root, start=False), lambda: (), resolve, origin, environ=UTF8)
    async with app.run_test(size=(80, 24)) as pilot:

        async def shows(*words: str) -> str:
            for _ in range(1200):
                await pilot.pause(0.05)
                strips = app.screen._compositor.render_strips()
                text = "\n".join("".join(segment.text for segment in strip) for strip in strips)
                if all(word in text for word in words):
                    return text
            raise AssertionError(f"{words} not on the screen:\n{text}")

        await shows("cart")
        await pilot.press("w")
        text = await shows("pole", "next action", "policy at 2k steps")
        assert "of 12 deg" in text
        await pilot.press("space")
        await shows("held: Space goes on")
        assert isinstance(app.screen, RunScreen)
        (player,) = players()
        player.kill()
        await pilot.press("full_stop")
        await shows("Enter tries again")
        await pilot.press("enter")
        await shows("held: Space goes on", "step 0")
        assert len(players()) == 1
        await pilot.press("l")
        for _ in range(200):
            await pilot.pause(0.05)
            if no_player():
                break
        assert no_player()
