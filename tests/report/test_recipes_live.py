"""Scripts of others as runs of a real supervisor: launched, charted, judged, frozen, thawed, stopped, nothing left.

They train with a learning rate that no PPO stands, so that there is something to judge.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from mission_tui import hook
from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.fleet.specs.spec import KeepSpec, RunSpec, Spec
from mission_tui.fleet.specs.thresholds import HealthKeep, KlPersistentLimits, NanLimits
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import Resume
from mission_tui.paths import socket_dir
from mission_tui.records.jsonl import read_all
from tests.report.conftest import REPOSITORY
from tests.supervisor.conftest import Lab, idle_lab, lab
from tests.waiting import until

__all__ = ["idle_lab", "lab"]
pytestmark = pytest.mark.timeout(180)

SCRIPTS = Path(__file__).with_name("scripts")
PLAIN = Path(__file__).with_name("plain_torch.py")
SHARED_MEMORY = Path("/dev/shm")
REPORT_LINE = (
    "        from mission_tui import report; "
    "report.update(timesteps=global_step, approx_kl=approx_kl, clip_fraction=np.mean(clipfracs), value_loss=v_loss, "
    "entropy_loss=-entropy_loss, explained_variance=explained_var)\n"
)
CLEANRL = ("--num-steps", "16", *("--learning-rate", "0.05", "--total-timesteps", "100000000"))
"""Words of the script; an update of 64 steps takes a quarter of its time."""
AWAIT_S = 90.0


@pytest.fixture
def left(lab: Lab) -> Iterator[None]:
    """Nothing of a run is there when the test is over: no process, no shared memory, no socket."""
    shared, sockets = names(SHARED_MEMORY), names(socket_dir(lab.root))
    yield
    until(lambda: not [it for it in lab.processes() if lab.supervisor is None or not is_supervisors(it.pid, lab)], 20)
    until(lambda: not (names(SHARED_MEMORY) - shared - mapped()), 20)
    assert names(socket_dir(lab.root)) == sockets


def names(folder: Path) -> set[str]:
    """What is in it, less folders: shared memory is a file, and other tests keep their runs in folders beside it."""
    return {it.name for it in folder.iterdir() if not it.is_dir()}


def mapped() -> set[str]:
    """Shared memory that some living process uses: other tests run beside this one."""
    found = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            lines = maps.read_text(errors="replace").splitlines()
        except OSError:
            continue
        found |= {line.rpartition("/dev/shm/")[2].split(" ")[0] for line in lines if "/dev/shm/" in line}
    return found


def is_supervisors(pid: int, lab: Lab) -> bool:
    """Whether the process is the supervisor or its GPU probe."""
    assert lab.supervisor is not None
    words = Path(f"/proc/{pid}/cmdline").read_bytes()
    return pid == lab.supervisor.pid or b"gpu_probe" in words


def command(*words: str, **run: object) -> Spec:
    """The spec of a run of `words` that no finding stops: a person does. One update that goes too far is enough."""
    health = HealthKeep(nan=NanLimits(act="notify"), kl_persistent=KlPersistentLimits(needed=1, window=1))
    keep = KeepSpec(health=health)
    return Spec(preset="command", run=RunSpec(command=words, **run), keep=keep)  # type: ignore[arg-type]


def rows(lab: Lab, run: str) -> list[UpdateDone]:
    """The updates in the run's file."""
    records, damage = read_all(lab.dir(run).metrics, MetricRecord)
    assert damage == []
    return [record for record in records if isinstance(record, UpdateDone)]


def lived(lab: Lab, run: str, *, series: str = "train/approx_kl") -> RunView:
    """The run's last view, after it was charted, judged, frozen, thawed and stopped."""
    view = lab.wait(run, lambda it: sum(point is not None for point in it.series.get(series, ())) >= 3, AWAIT_S)
    assert view.can == ("metrics",)
    lab.wait(run, lambda it: it.findings, AWAIT_S)
    lab.act("freeze", run)
    lab.wait(run, lambda it: it.state == "frozen")
    held = lab.view(run).update
    lab.ask(lambda id_: Resume(id=id_, run=run))
    lab.wait(run, lambda it: it.state == "running" and (it.update or 0) > (held or 0), AWAIT_S)
    lab.act("stop", run)
    view = lab.ended(run, AWAIT_S)
    assert view.outcome == "stopped"
    assert [row.update for row in rows(lab, run)] == list(range(1, (view.update or 0) + 1))
    return view


@pytest.mark.slow
@pytest.mark.usefixtures("left")
def test_a_cleanrl_script_edited_by_one_line(lab: Lab, tmp_path: Path) -> None:
    """One more line at the end of its loop, and nothing else, makes it a run like any other."""
    source = (SCRIPTS / "cleanrl_ppo.py").read_text(encoding="utf-8")
    end = '        print("SPS:", int(global_step / (time.time() - start_time)))\n'
    assert source.count(end) == 1
    script = tmp_path / "train.py"
    script.write_text(source.replace(end, end + REPORT_LINE))
    (run,) = lab.launch(spec=command(sys.executable, str(script), *CLEANRL))
    view = lived(lab, run)
    assert {"train/approx_kl", "train/clip_fraction", "train/explained_variance"} <= set(view.metrics)
    assert view.steps_per_s


@pytest.mark.slow
@pytest.mark.usefixtures("left")
def test_an_unedited_cleanrl_script_by_its_tensorboard_files(lab: Lab) -> None:
    """Nobody touches it: what it writes for TensorBoard is followed."""
    pytest.importorskip("tensorboard", reason="the script's own SummaryWriter, and reading its files, need tensorboard")
    follow = "runs/CartPole-v1__cleanrl_ppo__1"
    (run,) = lab.launch(spec=command(sys.executable, str(SCRIPTS / "cleanrl_ppo.py"), *CLEANRL, follow=follow))
    view = lived(lab, run)
    assert {"train/approx_kl", "train/clip_fraction", "train/explained_variance"} <= set(view.metrics)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of a virtual environment that has SB3 and everything else, but not mission-tui."""
    folder = tmp_path_factory.mktemp("foreign") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for each in {sysconfig.get_path(name) for name in ("purelib", "platlib")}:
        for path in Path(each).iterdir():
            if path.suffix != ".pth" and "mission_tui" not in path.name:
                (packages / path.name).symlink_to(path)
    python = str(folder / "bin" / "python")
    has_it = subprocess.run([python, "-I", "-c", "import mission_tui"], capture_output=True, text=True)
    assert "No module named 'mission_tui'" in has_it.stderr
    return python


@pytest.mark.slow
@pytest.mark.usefixtures("left")
def test_an_unedited_sb3_script_in_another_environment(lab: Lab, foreign: str) -> None:
    """With its worker, where mission-tui is not installed: through the hook, which is named by its path."""
    words = ("python", hook.__file__, str(SCRIPTS / "sb3_subproc.py"), "0.05")
    (run,) = lab.launch(spec=command(*words, python=foreign), PYTHONPATH="")
    lab.wait(run, lambda it: it.pids.workers, AWAIT_S)
    view = lived(lab, run)
    assert {"train/approx_kl", "train/clip_fraction", "rollout/ep_rew_mean"} <= set(view.metrics)
    assert view.rollout_s
    assert view.update_s
    assert (lab.root / "model.zip").is_file()  # a stop ends `learn`, and the script goes on to save


@pytest.mark.slow
@pytest.mark.usefixtures("left")
def test_an_unedited_sb3_script_by_its_log(lab: Lab, foreign: str) -> None:
    """The same script with nothing of ours near it: its `progress.csv` is followed."""
    words = ("python", str(SCRIPTS / "sb3_subproc.py"), "0.05")
    (run,) = lab.launch(spec=command(*words, python=foreign, follow="logs/progress.csv"), PYTHONPATH="")
    view = lived(lab, run)
    assert {"train/approx_kl", "train/clip_fraction", "rollout/ep_rew_mean"} <= set(view.metrics)


def python_with_sbx() -> str | None:
    """This Python if it has sbx, else that of the peers' environment (`make peers`)."""
    if find_spec("sbx") is not None:
        return sys.executable
    peers = REPOSITORY / ".venv-peers" / "bin" / "python"
    has_it = peers.is_file() and subprocess.run([peers, "-c", "import importlib.metadata as m; m.version('sbx-rl')"])
    return str(peers) if has_it and has_it.returncode == 0 else None


@pytest.mark.usefixtures("left")
@pytest.mark.skipif(python_with_sbx() is None, reason="sbx (JAX) is not installed here, nor by `make peers`")
def test_an_unedited_sbx_script(lab: Lab) -> None:
    """JAX's trainers are SB3's algorithms to the hook, in whatever environment they are."""
    words = ("python", hook.__file__, str(SCRIPTS / "sbx_ppo.py"), "0.1")
    (run,) = lab.launch(spec=command(*words, python=python_with_sbx()), PYTHONPATH="", JAX_PLATFORMS="cpu")
    view = lived(lab, run)
    assert {"train/approx_kl", "train/clip_fraction", "rollout/ep_rew_mean"} <= set(view.metrics)


@pytest.mark.slow
@pytest.mark.usefixtures("left")
def test_a_plain_loop_that_reports(lab: Lab) -> None:
    """A loss that goes to infinity is judged, of whatever loop it is; a stop lets it save and name its checkpoint."""
    (run,) = lab.launch(spec=command(sys.executable, str(PLAIN), "100000000", "1e20"))
    view = lived(lab, run, series="steps_per_s")
    assert view.last_checkpoint == str(lab.root / "net.pt")
