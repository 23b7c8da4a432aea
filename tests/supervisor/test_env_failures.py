"""A real training whose env workers fail: what is said of it, what is saved, and that nothing of it stays."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest

from mission_tui.fleet.events.processes import worker_sentences
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.records.runs.checkpoint import newest_verified
from tests.supervisor.conftest import FOREVER, Lab, living
from tests.waiting import until

pytestmark = pytest.mark.slow


SHARED = Path("/dev/shm")
WORKERS = 64 if "MISSION_TUI_NIGHT" in os.environ else 8


def real_spec(env_id: str, n_envs: int, n_workers: int, **kwargs: object) -> Spec:
    """A real training on env workers: 32 steps of each environment an update."""
    imports = ("tests.supervisor.failing_envs",)
    return Spec(
        preset="real",
        env=EnvSpec(id=env_id, kwargs=kwargs, imports=imports, n_envs=n_envs, vec="workers", n_workers=n_workers),
        ppo=PpoSpec(n_steps=32, batch_size=32, n_epochs=1, net_arch=(8,)),
        run=RunSpec(total_timesteps=FOREVER, device="cpu"),
    )


def real(lab: Lab) -> Lab:
    """The runs root with a supervisor that starts the real trainer."""
    del lab.environ["MISSION_TUI_TRAINER"]
    lab.start()
    return lab


def carrying(word: str) -> list[int]:
    """Processes with `word` in their command line."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.mark.timeout(60)
def test_a_crash_of_an_env_worker_ends_the_run_named_saved_and_swept(idle_lab: Lab) -> None:
    """SIGSEGV in a worker's step: failed(env), the cause in a sentence, the last boundary saved; its helper, which had
    shed session, parent and environment, is gone.
    """
    lab, helper = real(idle_lab), f"helper-{secrets.token_hex(8)}"
    (run,) = lab.launch(spec=real_spec("Crashing-v0", 4, 2, helper=helper))
    until(lambda: carrying(helper), 40)
    view = lab.ended(run, 40)
    assert (view.outcome, view.kind) == ("failed", "env")
    assert view.cause is not None
    assert "env worker 0 of 2 (environments 0-1) died (SIGSEGV, signal 11) in environment 0" in view.cause
    assert "Segmentation fault" in view.cause
    saved = newest_verified(lab.dir(run).checkpoints)
    assert saved is not None
    assert (saved.name, saved.update) == (view.last_checkpoint, view.update)
    assert (saved.update or 0) >= 1
    assert "joint 4 left the arm" in lab.dir(run).attempt(1).output.read_text(errors="replace")
    assert carrying(helper) == []


@pytest.mark.timeout(300)
def test_nothing_stays_of_workers_that_are_stuck_in_a_step(idle_lab: Lab) -> None:
    """SIGKILL to the trainer alone: soon no process, no shared memory. Eight workers here, 64 in `make night`."""
    lab, prefix = real(idle_lab), f"stuck-{secrets.token_hex(4)}"
    (run,) = lab.launch(spec=real_spec("Stuck-v0", WORKERS, WORKERS, prefix=prefix))

    def all_seen(view: RunView) -> bool:
        """The supervisor looks for workers now and then, and may have seen the first of them."""
        return view.state == "ended" or ((view.update or 0) >= 3 and len(view.pids.workers) >= WORKERS)

    view = lab.wait(run, all_seen, 240)
    family = lab.family(run)
    # Their trackers of shared memory are processes below the trainer too.
    assert len(view.pids.workers) >= WORKERS
    assert len(living(family)) >= WORKERS + 2
    assert view.pids.trainer is not None
    assert len(list(SHARED.glob(f"{prefix}*"))) >= 4
    until(lambda: all("S" in process.status()[:1].upper() for process in family[2:]), 20)
    os.kill(view.pids.trainer, 9)
    until(lambda: not living(family), 30)
    assert lab.ended(run).kind == "crash"
    # Python's own trackers may be quicker than the keeper; what counts is that no name of this run stays.
    assert not list(SHARED.glob(f"{prefix}*"))


@pytest.mark.timeout(60)
def test_a_worker_that_does_not_answer_is_named_while_the_run_waits_for_it(idle_lab: Lab, tmp_path: Path) -> None:
    """One environment of a real training hangs: which worker it is, since when, where, and how the kernel sees it."""
    lab = real(idle_lab)
    (run,) = lab.launch(spec=real_spec("Sulking-v0", 4, 2, mark=str(tmp_path / "mark")))
    # Its processes are noted every third beat, the late one as soon as it is told.
    view = lab.wait(run, lambda view: view.workers is not None and view.workers.late and view.pids.workers, 50)
    assert view.workers is not None
    (late,) = view.workers.late
    assert (view.workers.count, view.workers.late_count) == (2, 1)
    assert late.pid == view.pids.workers[late.index]
    assert late.env in range(2 * late.index, 2 * late.index + 2)
    # From two seconds on it is late, and they are told whole.
    assert late.seconds >= 2.0
    assert late.state == "S"
    (sentence,) = worker_sentences(view.workers)
    assert sentence.startswith(f"worker {late.index} of 2 has not answered for ")
    lab.act("kill", run)
    assert lab.ended(run).workers is None
