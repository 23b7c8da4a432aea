"""The parts of an env worker: what it imports, what it counts, what it shares and how it speaks."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common import monitor as sb3

from mission_tui.envs import save_env_state
from mission_tui.envs.channel import (
    CALL,
    DONE,
    STEP,
    Channel,
    EnvRecipe,
    Layout,
    Monitor,
    Orders,
    Raised,
    SharedArrays,
    Spin,
    anonymous_memory,
    frame,
    spins,
)

ROOT = Path(__file__).parents[2]


def test_a_worker_imports_neither_torch_nor_another_room() -> None:
    """Fifty megabytes and a second would come with torch, in every worker."""
    code = (
        "import sys, mission_tui.envs.worker\n"
        "rooms = {name.split('.')[1] for name in sys.modules if name.startswith('mission_tui.')}\n"
        "known = {'control_groups', 'envs', 'errors', 'forks', 'procfs', 'run_module'}\n"
        "sys.exit(repr(rooms) if rooms - known or 'torch' in sys.modules else 0)"
    )
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environ, timeout=20)


def test_episodes_are_counted_as_sb3_counts_them() -> None:
    """Return, length, and the errors of stepping out of turn are those of SB3's Monitor; so is the state to save."""
    ours, theirs = Monitor(gymnasium.make("CartPole-v1")), sb3.Monitor(gymnasium.make("CartPole-v1"))
    for env in (ours, theirs):
        with pytest.raises(RuntimeError, match="needs reset"):
            env.step(0)
        env.reset(seed=4)
    ended = 0
    for step in range(120):
        mine, other = ours.step(step % 2), theirs.step(step % 2)
        np.testing.assert_array_equal(mine[0], other[0])
        one, another = mine[4].pop("episode", {}), other[4].pop("episode", {})
        assert [one.get(key) for key in "rl"] == [another.get(key) for key in "rl"]
        assert one.keys() == another.keys()
        if mine[2]:
            ended += 1
            ours.reset()
            theirs.reset()
            for history in (theirs.episode_returns, theirs.episode_lengths, theirs.episode_times):
                history.clear()
    assert ended >= 2
    mine_state, other_state = save_env_state(ours), save_env_state(theirs)
    assert mine_state["wrappers"] == other_state["wrappers"]


def test_a_recipe_imports_makes_monitors_and_wraps() -> None:
    """The monitor sits directly around the environment, the first wrapper directly around that."""
    flat, scaled = "gymnasium.wrappers:FlattenObservation", "tests.trainer.own_envs:Scaled"
    wrappers: tuple[tuple[str, dict[str, Any]], ...] = ((flat, {}), (scaled, {"by": 2.0}))
    env = EnvRecipe("Walk-v0", {}, ("tests.trainer.probe_envs",), wrappers).make()
    names = []
    while isinstance(env, gymnasium.Wrapper):
        names.append(type(env).__name__)
        env = env.env
    assert names[:3] == ["Scaled", "FlattenObservation", "Monitor"]
    assert type(env).__name__ == "Walk"


SPACE = spaces.Dict(image=spaces.Box(0, 255, (5, 3), dtype=np.uint8), place=spaces.Discrete(4))


def test_two_mappings_of_the_memory_see_the_same_arrays() -> None:
    """Each part has the space's type and shape behind the number of the environment, and none overlaps another."""
    layout = Layout.of(SPACE, spaces.MultiDiscrete([2, 3]), 4, 2)
    memory = anonymous_memory(layout.size)
    one, other = SharedArrays(layout, memory), SharedArrays(layout, memory)
    os.close(memory)
    actions = one.actions(("<i8", (2,)), 4)
    arrays: list[Any] = [*one.observations.values(), one.rewards, one.dones, one.lives, actions]
    seen = [*other.observations.values(), other.rewards, other.dones, other.lives, other.actions(("<i8", (2,)), 4)]
    for number, array in enumerate(arrays, start=1):
        array[...] = number
    for number, array in enumerate(seen, start=1):
        assert (array == (True if array.dtype == bool else number)).all()
    assert (one.observations["image"].dtype, one.observations["image"].shape) == (np.dtype(np.uint8), (4, 5, 3))
    assert (one.observations["place"].dtype, one.observations["place"].shape) == (np.dtype(np.int64), (4,))
    assert all(array.ctypes.data % 64 == 0 for array in arrays)


def test_a_space_without_arrays_cannot_be_laid_out() -> None:
    """A tuple is refused by name."""
    with pytest.raises(ValueError, match=r"Tuple.* is not one array"):
        Layout.of(spaces.Tuple([SPACE]), spaces.Discrete(2), 1, 1)


def test_messages_arrive_whole_and_the_end_is_told_apart() -> None:
    """Empty, large and consecutive messages are read one by one; after them the stream ends."""
    ours, theirs = socket.socketpair()
    sender, receiver = Channel(ours), Channel(theirs)
    content = {"image": np.arange(10**6)}
    writer = threading.Thread(target=lambda: sender.send(frame(STEP) + frame(DONE, content)))
    writer.start()
    assert receiver.receive() == (STEP, None)
    kind, arrived = receiver.receive()
    writer.join()
    assert kind == DONE
    np.testing.assert_array_equal(arrived["image"], content["image"])
    sender.close()
    with pytest.raises(EOFError):
        receiver.receive()
    receiver.close()


def test_silence_is_told_slice_by_slice() -> None:
    """While nothing comes `silent` is called, and what it raises ends the waiting."""
    ours, theirs = socket.socketpair()
    waiting, calls = Channel(ours, slice_s=0.01), []

    def silent() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise TimeoutError

    with theirs, pytest.raises(TimeoutError):
        waiting.receive(silent)
    waiting.close()


class Looked:
    """Something comes after so many looks; how often it was looked for."""

    def __init__(self, after: float) -> None:
        self.after, self.looks = after, 0

    def __call__(self) -> bytes:
        """What came; asked without waiting."""
        self.looks += 1
        if self.looks <= self.after:
            raise BlockingIOError
        return b"s"


@pytest.fixture
def yields(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that each offer of the core takes, 10 us while none are left; nothing else takes any time."""
    given, clock = list[float](), [0.0]

    def sched_yield() -> None:
        clock[0] += given.pop(0) if given else 10e-6

    monkeypatch.setattr(os, "sched_yield", sched_yield)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    return given


@pytest.mark.usefixtures("yields")
def test_what_comes_soon_is_met_without_a_sleep() -> None:
    """Every time, as long as it does."""
    spin = Spin()
    for end in (Looked(after=0), Looked(after=20), Looked(after=29)):
        assert spin.receive(end) == b"s"
        assert end.looks == end.after + 1


@pytest.mark.usefixtures("yields")
def test_waits_that_are_long_are_soon_no_longer_spun_for() -> None:
    """After each spin in vain twice as many waits sleep at once, 63 at most; one that pays ends that."""
    spin, never = Spin(), Looked(after=math.inf)
    spun = []
    for wait in range(400):
        before = never.looks
        assert spin.receive(never) is None
        if never.looks > before:
            spun.append(wait)
    assert spun == [0, 2, 6, 14, 30, 62, 126, 190, 254, 318, 382]
    while spin.receive(Looked(after=0)) is None:
        pass
    assert spin.receive(never) is None
    assert spin.receive(Looked(after=0)) is None
    assert spin.receive(Looked(after=0)) == b"s"


def test_nobody_spins_on_a_core_for_which_others_have_work(yields: list[float]) -> None:
    """They are served first whenever it is offered: a wait would take milliseconds that a sleep does not."""
    spin, soon = Spin(), Looked(after=1)
    yields.append(3e-3)
    waits = 1
    while spin.receive(soon) is None:
        waits += 1
    assert waits == 1025


def test_who_spins_has_a_core_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trainer and each of its workers."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 6})
    assert (spins(3), spins(4)) == (True, False)


@pytest.mark.parametrize("spins_first", [False, True])
def test_orders_come_in_words_and_steps_without(spins_first: bool) -> None:
    """Each whole, whichever way it comes and whether it is there already or waited for; then the end is told."""
    ours, theirs = socket.socketpair()
    steps = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    trainer = Channel(ours)
    orders = Orders(Channel(theirs), steps, Spin() if spins_first else None)
    heard, asked = list[tuple[bytes, Any]](), threading.Semaphore(0)

    def worker() -> None:
        with suppress(EOFError):
            while True:
                heard.append(orders.receive())
                asked.release()

    thread = threading.Thread(target=worker)
    thread.start()
    for pause_s in (0.0, 0.01):  # while it spins, and once it sleeps: what it hears must not depend on which
        for order in (STEP, CALL, STEP, STEP):
            time.sleep(pause_s)
            if order == STEP:
                os.eventfd_write(steps, 1)
            else:
                trainer.send(frame(CALL, "reset"))
            assert asked.acquire(timeout=20)
    trainer.close()
    thread.join(20)
    assert not thread.is_alive()
    assert heard == [(STEP, None), (CALL, "reset"), (STEP, None), (STEP, None)] * 2
    os.close(steps)
    theirs.close()


def test_an_exception_that_cannot_travel_is_told_in_words() -> None:
    """The sentence and the traceback are there either way; the exception itself only if it comes out the same."""
    with pytest.raises(KeyError) as caught:
        os.environ["NO_SUCH_THING"]
    raised = Raised.of(caught.value, 3)
    caught.value.__dict__["held"] = socket
    stuck = Raised.of(caught.value, 3)
    assert raised.sentence.startswith("KeyError: 'NO_SUCH_THING' (")
    assert isinstance(raised.error, KeyError)
    assert stuck.error is None
    assert "Traceback" in stuck.text
