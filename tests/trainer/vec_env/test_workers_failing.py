"""What goes wrong in an env worker arrives as one sentence that names it, and nothing stays behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest

from mission_tui.envs.channel import EnvRecipe
from mission_tui.errors import PresetError
from mission_tui.trainer.failures import EnvError, classify
from mission_tui.trainer.vec_env import WorkersVecEnv, build_vec_env
from mission_tui.trainer.vec_env.worker_process import AnswerTimeout, OomKills
from tests.trainer.harness import spec_with
from tests.trainer.worker_envs import CRASH, EXIT, FINE, HANG, LEAVE, RAISE, SPEAK, STARVE, UNPICKLABLE
from tests.waiting import until

LANES = 4
PROBES = {"imports": ["tests.trainer.worker_envs"]}
HANGS = (
    r"env worker 1 of 2 \(environments 2-3\), pid {}, hangs in the step of environment 2: silent for 0\.5 s; "
    r"a usual step takes \S+ s"
)
ROOT = Path(__file__).parents[3]


@contextmanager
def obedient(floor_s: float = 60.0, split: bool = False) -> Iterator[WorkersVecEnv]:
    """Four environments that fail as their actions say, on two workers or on one and in this process, reset."""
    made = gymnasium.make("Obedient-v0")
    spaces = made.observation_space, made.action_space
    recipe = EnvRecipe("Obedient-v0", {}, ("tests.trainer.worker_envs",))
    vec = WorkersVecEnv(recipe, LANES, spaces, 2 - split, floor_s=floor_s, split=split)
    try:
        vec.reset()
        vec.step(act())
        yield vec
    finally:
        vec.close()
        assert not any(map(psutil.pid_exists, vec.pids))


def act(what: int = FINE, lane: int = 2) -> Any:
    """Actions of which one fails."""
    actions = np.zeros(LANES, dtype=np.int64)
    actions[lane] = what
    return actions


split_or_not = pytest.mark.parametrize("split", [False, True], ids=["workers", "split"])


@split_or_not
@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        (RAISE, r"ValueError: the bridge is out \(worker_envs.py:\d+\)"),
        (UNPICKLABLE, r"StubbornError: 1 is not 2 \(worker_envs.py:\d+\)"),
        (EXIT, r"SystemExit: 3 \(worker_envs.py:\d+\)"),
    ],
)
def test_what_an_environment_raises_arrives_with_its_place(what: int, sentence: str, split: bool) -> None:
    """Process, environment, exception and line are in the sentence, the traceback is in a note, the kind is env; the
    others have done their step, and all can be asked.
    """
    with obedient(split=split) as vec:
        with pytest.raises(EnvError) as caught:
            vec.step(act(what))
        who = "the trainer" if split else "env worker 1"
        assert re.fullmatch(f"{who}: environment 2 raised {sentence}", str(caught.value))
        assert "in step\n" in caught.value.__notes__[0]
        assert classify(caught.value).kind == "env"
        assert vec.get_attr("steps") == [2, 2, 1, 1]


def test_a_worker_without_memory_is_no_fault_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A MemoryError in a worker, and a worker that the kernel kills for memory, are of the kind oom, not env."""
    with obedient() as vec:
        with pytest.raises(EnvError, match="MemoryError") as raised:
            vec.step(act(STARVE))
        monkeypatch.setattr(OomKills, "since", lambda *_: OomKills(1, 1))
        os.kill(vec.pids[1], signal.SIGKILL)
        with pytest.raises(EnvError, match="killed by the kernel for lack of memory") as killed:
            vec.step(act())
    assert [classify(it.value).kind for it in (raised, killed)] == ["oom", "oom"]


@split_or_not
def test_a_question_raises_what_it_raises_at_home(split: bool) -> None:
    """An exception of a method keeps its type, with its traceback as a note; the next question is answered."""
    with obedient(split=split) as vec:
        with pytest.raises(LookupError, match="not here") as caught:
            vec.env_method("refuse", indices=[3])
        assert f"{'the trainer' if split else 'env worker 1'}, environment 3" in caught.value.__notes__[0]
        with pytest.raises(AttributeError, match="nothing"):
            vec.get_attr("nothing")
        with pytest.raises(Exception, match=r"pickle|local object"):
            vec.set_attr("steps", lambda: None)
        assert vec.get_attr("steps") == [1] * LANES


def test_a_worker_that_leaves_is_named_with_how_and_where() -> None:
    """`os._exit` in a step is told apart from an exception; every later call says the same at once."""
    with obedient() as vec:
        for _ in range(2):
            with pytest.raises(EnvError, match=r"of 2 .*ended with exit code 7 .*in environment 1; it said nothing"):
                vec.step(act(LEAVE, 1))


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        (CRASH, r"died \(SIGSEGV, signal 11\) in environment 2; .*Segmentation fault File \".*ctypes/__init__.py\""),
        (SPEAK, r"died \(SIGABRT, signal 6\) in environment 2; .*Fatal Python error: Aborted"),
    ],
)
def test_a_crash_in_native_code_is_quoted(what: int, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signal, environment and what the fault handler said of the place are in the cause."""
    monkeypatch.setenv("PYTHONFAULTHANDLER", "1")
    with obedient() as vec, pytest.raises(EnvError, match=sentence):
        vec.step(act(what))


def test_the_last_line_of_a_worker_is_quoted_clean(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    """What it wrote before it died reaches log and cause; escapes reach only the log."""
    monkeypatch.delenv("PYTHONFAULTHANDLER", raising=False)
    with obedient() as vec, pytest.raises(EnvError) as caught:
        vec.step(act(SPEAK))
    assert str(caught.value).endswith("it last said: at joint 4")
    assert "the physics exploded\n\x1b[31mat joint 4" in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSEGV])
def test_a_death_is_noticed_while_another_worker_is_busy(sent: signal.Signals) -> None:
    """The first worker hangs; the second is killed; the answer that is waited for is not the one that is told."""
    with obedient() as vec:
        vec.step_async(act(HANG, 0))
        until(lambda: vec.steps_done[1] == 4)
        os.kill(vec.pids[1], sent)
        with pytest.raises(EnvError, match=rf"env worker 1 of 2 .*{sent.name}, signal {sent.value}"):
            vec.step_wait()


def test_a_worker_that_was_killed_while_idle_is_named_by_the_next_call() -> None:
    """Whether the call notices when it sends or when it waits, the sentence is the same."""
    with obedient() as vec:
        os.kill(vec.pids[0], signal.SIGKILL)
        until(lambda: psutil.Process(vec.pids[0]).status() == psutil.STATUS_ZOMBIE)
        with pytest.raises(EnvError, match=r"env worker 0 .*was killed \(SIGKILL"):
            vec.step(act())
        with pytest.raises(EnvError, match=r"env worker 0 .*was killed \(SIGKILL"):
            vec.get_state()


def test_a_worker_that_dies_beside_the_trainers_share_is_named() -> None:
    """The trainer steps its own to the end first."""
    with obedient(split=True) as vec, pytest.raises(EnvError, match=r"env worker 0 of 1 \(environments 0-1\) ended"):
        vec.step(act(LEAVE, 1))


def test_an_interrupt_in_the_trainers_share_leaves_no_answer_for_another_question() -> None:
    """The worker's answer to the step was never read: whatever is asked next is refused."""

    def interrupted(_self: Any, _action: Any) -> None:
        raise KeyboardInterrupt

    with obedient(split=True) as vec, pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.trainer.worker_envs.Obedient.step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            vec.step(act())
        with pytest.raises(EnvError, match="interrupted"):
            vec.get_attr("steps")


@pytest.mark.slow
def test_a_hang_is_named_with_its_environment_and_closing_ends_it() -> None:
    """After the least time a step is given, worker and environment are said; closing kills what does not leave."""
    with obedient(floor_s=0.5) as vec:
        with pytest.raises(EnvError, match=HANGS.format(vec.pids[1])):
            vec.step(act(HANG))
        vec.close()


def test_patience_grows_with_what_was_seen() -> None:
    """The first answer has its own time; then it is the floor, or twenty times the longest."""
    patience = AnswerTimeout(floor_s=60.0, first_s=300.0)
    assert patience.limit_s == 300.0
    patience.took(1.0)
    assert patience.limit_s == 60.0
    patience.took(10.0)
    patience.took(0.1)
    assert patience.limit_s == 200.0


def test_a_worker_says_who_it_is_and_has_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run and index are in its command line and name; its memory maps hold no torch."""
    monkeypatch.setenv("MISSION_TUI_RUN", "20261121-104207-heavy-3f9a")
    with obedient() as vec:
        process = psutil.Process(vec.pids[1])
        assert process.cmdline()[0] == "mission-tui worker 1/2 of heavy-3f9a"
        assert process.name() == "env1/2 hea~3f9a"
        assert "torch" not in Path(f"/proc/{process.pid}/maps").read_text()


@pytest.mark.slow
def test_nothing_is_left_open_or_lying_about() -> None:
    """Descriptors and shared memory are as before after closing, however often it is closed."""

    def held() -> tuple[int, set[Path]]:
        with obedient() as vec:
            vec.close()
        return psutil.Process().num_fds(), set(Path("/dev/shm").iterdir())

    # A leak shows each time; neighbours in /dev/shm, and what other tests left to the collector, do not.
    assert any(held() == held() for _ in range(5))


TRAINER = """
import sys, threading
from tests.trainer.vec_env.test_workers_failing import act, obedient, HANG
with obedient() as vec:
    print(*vec.pids, flush=True)
    vec.step_async(act(HANG, 0))
    sys.stdin.read()
"""


@pytest.mark.slow
def test_workers_die_with_their_trainer() -> None:
    """SIGKILL to the trainer ends a worker that sits in a step that never returns as well as one that waits."""
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", TRAINER]
    with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as trainer:
        assert trainer.stdout is not None
        family = [psutil.Process(int(pid)) for pid in trainer.stdout.readline().split()]
        assert len(family) == 2
        trainer.kill()
        trainer.wait(5)
        until(lambda: not any(worker.is_running() for worker in family), 5)


def test_an_interrupt_is_the_trainers_alone() -> None:
    """A Ctrl-C in the terminal reaches the whole group; workers go on, because the trainer saves first."""
    with obedient() as vec:
        for pid in vec.pids:
            os.kill(pid, signal.SIGINT)
        assert vec.step(act())[1].tolist() == [1.0] * LANES


def test_what_cannot_be_shared_or_made_is_refused_before_a_worker_starts() -> None:
    """A space without arrays and an environment that cannot be made are the preset's fault."""
    env = {"id": "TupleWalk-v0", "vec": "workers", "n_envs": 2, "n_workers": 2, **PROBES}
    with pytest.raises(PresetError, match=r"env.vec = 'workers': the space Tuple.* cannot be shared"):
        build_vec_env(spec_with(env=env), None)
    with pytest.raises(PresetError, match="no licence"):
        build_vec_env(spec_with(env={**env, "id": "Unmakeable-v0"}), None)


def test_one_that_only_a_worker_cannot_make_is_an_error_of_the_environment() -> None:
    """What was raised there is said, with the environment that was being made."""
    made = gymnasium.make("Obedient-v0")
    recipe = EnvRecipe("Obedient-v0", {"size": 3}, ("tests.trainer.worker_envs",))
    with pytest.raises(EnvError, match=r"env worker 0: environment 0 raised TypeError: .*size.* in making"):
        WorkersVecEnv(recipe, LANES, (made.observation_space, made.action_space), 2)
