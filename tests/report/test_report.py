"""`mission_tui.report`: rows as the trainer writes them, one process of a run, and nothing that a training feels."""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from mission_tui import report
from mission_tui.fleet.events.metrics import CheckpointSaved, TrainingStarted, UpdateDone
from mission_tui.fleet.history.run import RunHistory
from mission_tui.fleet.specs.spec import RunSpec, Spec
from mission_tui.fleet.views.run import view_of
from mission_tui.ipc.telemetry_messages import TelemetryMessage, TrainerDutyFailed
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer import follow
from mission_tui.trainer.follow import Follower
from tests.report.conftest import Desk
from tests.waiting import until

THREE = """
from mission_tui import report
for number in range(1, 4):
    report.phase("rollout")
    report.episode(10.0 * number, 20, "won")
    report.phase("update")
    report.update(timesteps=number * 100, approx_kl=0.01, **{"custom/depth": number})
"""


def test_rows_are_those_of_a_trainer(desk: Desk) -> None:
    """A start, then one row an update, with SB3's tags, episodes, and means of the last hundred of them."""
    desk.run(THREE)
    started, *rows = desk.records()
    assert isinstance(started, TrainingStarted)
    assert [row.seq for row in rows] == [2, 3, 4]
    last = rows[-1]
    assert isinstance(last, UpdateDone)
    assert (last.update, last.timesteps) == (3, 300)
    wanted = {"train/approx_kl": 0.01, "custom/depth": 3.0, "rollout/ep_rew_mean": 20.0, "rollout/ep_len_mean": 20.0}
    assert last.metrics == wanted
    assert (last.episodes.n, last.episodes.r, last.episodes.l) == (1, (30.0,), (20,))
    assert last.episodes.outcomes == {"won": 1}


def test_nothing_happens_without_a_supervisor(tmp_path: Path) -> None:
    """Where nobody launched the process no thread is started, no file made, and nobody is asked to stop."""
    script = "import threading\nfrom mission_tui import report\nreport.update(timesteps=1, kl=1.0)\nreport.phase('x')\n"
    script += "report.episode(1, 1)\nreport.checkpoint('a')\nprint(report.should_stop(), threading.active_count())"
    marks = {name: value for name, value in os.environ.items() if not name.startswith("MISSION_TUI_")}
    said = subprocess.run([sys.executable, "-c", script], env=marks, cwd=tmp_path, capture_output=True, text=True)
    assert (said.stdout, said.stderr) == ("False 1\n", "")
    assert list(tmp_path.iterdir()) == []


def test_nonsense_never_raises(desk: Desk) -> None:
    """Calls with what is no number, no path or no phase leave the training alone; what is good in them is kept."""
    desk.run(
        "from mission_tui import report\n"
        "report.update('many', kl=1.0)\nreport.update(timesteps=-5, a=object(), b='text', c=True, d=None, e=2**5000)\n"
        "report.update(timesteps=10, good=1.5, bad=float('nan'), worse=-float('inf'))\n"
        "report.episode('x', 1)\nreport.checkpoint(3.5)\nreport.phase(17)\nreport.phase('dreaming')\n"
    )
    assert [row.metrics for row in desk.of(UpdateDone)] == [
        {},
        {"train/good": 1.5, "train/bad": "nan", "train/worse": "-inf"},
    ]


def test_forks_and_children_say_nothing(desk: Desk) -> None:
    """A fork, and children of multiprocessing however started, neither report nor keep the parent's SIGTERM."""
    script = desk.folder / "script.py"
    script.write_text(
        "import multiprocessing as mp, os, signal\nfrom mission_tui import report\n"
        "def work():\n    report.update(timesteps=999, kl=9.0)\n    report.episode(9.0, 9)\n"
        "    print(report.should_stop(), flush=True)\n"
        "if __name__ == '__main__':\n"
        "    for how in ('fork', 'spawn', 'forkserver'):\n"
        "        child = mp.get_context(how).Process(target=work)\n        child.start()\n        child.join()\n"
        "    report.should_stop()\n    report.update(timesteps=10, kl=0.5)\n"
        "    child = os.fork()\n"
        "    if not child:\n        work()\n        signal.raise_signal(signal.SIGTERM)\n        os._exit(0)\n"
        "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)\n"
        "    report.update(timesteps=20, kl=0.5)\n"
    )
    said = desk.run("", "-W", "ignore", str(script))
    assert said.split() == ["False"] * 4 + [str(-signal.SIGTERM)]
    assert [(row.timesteps, row.episodes.n) for row in desk.of(UpdateDone)] == [(10, 0), (20, 0)]


def test_a_second_process_of_the_run_is_silent(desk: Desk) -> None:
    """While one process reports, another one that was started by it does not."""
    desk.run(
        "import subprocess, sys, time\nfrom mission_tui import report\nreport.update(timesteps=10, kl=0.5)\n"
        "time.sleep(0.5)\n"
        "other = 'from mission_tui import report; report.update(timesteps=999, kl=9.0)'\n"
        "subprocess.run([sys.executable, '-c', other], check=True)\n"
    )
    assert [row.timesteps for row in desk.of(UpdateDone)] == [10]


def test_another_attempt_goes_on_where_it_was(desk: Desk) -> None:
    """An attempt that begins anew voids all rows of the one before, one that resumed only the later ones."""
    desk.run(THREE)
    desk.attempt = 2
    desk.run("from mission_tui import report; report.update(timesteps=250, kl=0.5)")
    assert desk.of(TrainingStarted)[-1].from_update == 2
    assert [(row.update, row.timesteps) for row in desk.of(UpdateDone)][-1] == (3, 250)
    desk.attempt = 3
    desk.run("from mission_tui import report; report.update(timesteps=100, kl=0.5)")
    start, row = desk.of(TrainingStarted)[-1], desk.of(UpdateDone)[-1]
    assert (start.from_update, start.from_timesteps, row.update) == (0, 0, 1)
    assert [record.seq for record in desk.records()] == list(range(1, 9))


def test_a_script_that_counts_anew_goes_on(desk: Desk) -> None:
    """Steps that begin again within an attempt, also in its next process, are counted on."""
    one = "from mission_tui import report\nfor steps in (10, 20, 10, 20): report.update(timesteps=steps, kl=0.5)"
    desk.run(one)
    desk.run(one)
    assert [row.timesteps for row in desk.of(UpdateDone)] == [10, 20, 30, 40, 50, 60, 70, 80]
    assert len(desk.of(TrainingStarted)) == 1


def test_the_steps_that_are_meant_make_progress(desk: Desk) -> None:
    """They are counted as the steps are, and shown as the run's total where nobody asked for another."""
    desk.run("from mission_tui import report; report.update(timesteps=64, total_timesteps=256)")
    desk.run("from mission_tui import report; report.update(timesteps=32, total_timesteps=128); report.update(32)")
    rows = desk.of(UpdateDone)
    assert [(row.timesteps, row.total_timesteps) for row in rows] == [(64, 256), (96, 192), (96, None)]
    run = RunHistory("x", "/x", Spec(preset="command", run=RunSpec(command=("x",))))
    for row in rows:
        run.metrics.take(row)
    assert view_of(run).total_timesteps == 192


def test_a_torn_line_does_not_swallow_the_next(desk: Desk) -> None:
    """Half a line that a crash left, of what was said or of a row, is passed over."""
    desk.run(THREE)
    with desk.reported.open("ab") as file:
        file.write(b'{"say": "upd')
    desk.run("from mission_tui import report; report.update(timesteps=400, kl=0.5)")
    assert [row.timesteps for row in desk.of(UpdateDone)] == [100, 200, 300, 400]
    assert sum(line[:17] == b'{"say": "process"' for line in desk.reported.read_bytes().splitlines()) == 2
    with (desk.folder / "metrics.jsonl").open("ab") as file:
        file.write(b'{"kind":"upd')
    desk.run("from mission_tui import report; report.update(timesteps=500, kl=0.5)")
    assert [(row.seq, row.timesteps) for row in desk.of(UpdateDone)][-2:] == [(5, 400), (6, 500)]


def test_what_is_no_line_is_passed_over(desk: Desk) -> None:
    """Somebody else's bytes in the file cost only themselves."""
    desk.run(THREE)
    with desk.reported.open("ab") as file:
        file.write(b'\n[1]\n{"say": "update"}\n{"say": "phase", "t": 1, "phase": 3}\n\xff\n' + b"x" * (3 << 20) + b"\n")
    desk.run("from mission_tui import report; report.update(timesteps=400, kl=0.5)")
    assert [row.timesteps for row in desk.of(UpdateDone)] == [100, 200, 300, 400]


def test_a_reader_that_comes_later_writes_each_row_once(desk: Desk) -> None:
    """Of one file read by one after the other the rows are those of a single reader, means over episodes included."""
    desk.run(THREE)
    desk.run("from mission_tui import report\nfor steps in (50, 60, 70): report.update(timesteps=steps)")
    lines = desk.reported.read_bytes().splitlines(keepends=True)
    desk.reported.write_bytes(b"")
    (desk.folder / "metrics.jsonl").unlink()
    for line in lines:
        with desk.reported.open("ab") as file:
            file.write(line)
        desk.follow()
    assert [row.timesteps for row in desk.of(UpdateDone)] == [100, 200, 300, 350, 360, 370]
    assert [row.metrics["rollout/ep_rew_mean"] for row in desk.of(UpdateDone)] == [10.0, 15.0, 20.0, 20.0, 20.0, 20.0]


def test_calling_at_every_step_is_thinned(desk: Desk) -> None:
    """A loop that reports thousands of times a second leaves at most some fifty rows a second, and all episodes."""
    desk.run(
        "import time\nfrom mission_tui import report\nuntil = time.monotonic() + 1.0\nsteps = 0\n"
        "while time.monotonic() < until:\n    steps += 1\n    report.episode(1.0, 1)\n"
        "    report.update(timesteps=steps, kl=0.5)\n"
        "time.sleep(0.3)\nreport.update(timesteps=steps, kl=0.5)\nprint(steps)"
    )
    rows = desk.of(UpdateDone)
    assert 5 < len(rows) < 90
    assert sum(row.episodes.n for row in rows) == rows[-1].timesteps
    assert max(len(row.episodes.r) for row in rows) <= 256


def test_phases_divide_the_seconds(desk: Desk) -> None:
    """A row says how long rollout and update took, and how fast the steps came; without phases these are 0."""
    begun = time.monotonic()
    desk.run(
        "import time\nfrom mission_tui import report\n"
        "report.phase('rollout'); time.sleep(0.2); report.phase('update'); time.sleep(0.1)\n"
        "report.update(timesteps=300, kl=0.5)\n"
    )
    (row,) = desk.of(UpdateDone)
    assert row.rollout_s >= 0.2
    assert row.update_s >= 0.1
    # Between phases and around them the process may have waited for a core.
    assert 300 / (time.monotonic() - begun) <= row.steps_per_s <= 1.01 * 300 / (row.rollout_s + row.update_s)


def test_seconds_of_training_have_what_lies_between_phases(desk: Desk) -> None:
    """An evaluation or a save is time that training took, a pause is not; a later attempt goes on from there."""

    def say(*lines: dict[str, object]) -> None:
        with desk.reported.open("ab") as file:
            file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))

    spent = {"rollout": 4.0, "update": 1.0}
    say(
        {"say": "process", "t": 100.0, "pid": os.getpid()},
        {"say": "update", "t": 110.0, "timesteps": 64, "took_s": 10.0, "spent_s": spent},
    )
    desk.follow()
    say(
        {"say": "phase", "t": 112.0, "phase": "paused"},
        {"say": "phase", "t": 117.0, "phase": "rollout"},
        {"say": "update", "t": 124.0, "timesteps": 128, "took_s": 14.0, "spent_s": spent},
    )
    assert [row.trained_s for row in desk.of(UpdateDone)] == [10.0, 19.0]
    desk.attempt = 2
    say(
        {"say": "process", "t": 200.0, "pid": os.getpid()},
        {"say": "update", "t": 207.0, "timesteps": 100, "took_s": 7.0, "spent_s": spent},
    )
    assert desk.of(UpdateDone)[-1].trained_s == 17.0


@pytest.mark.slow
def test_frozen_seconds_are_no_slow_update(desk: Desk) -> None:
    """Seconds for which SIGSTOP held the process are not counted."""
    process = desk.start(
        "import os, signal, time\nfrom mission_tui import report\nreport.phase('rollout')\n"
        "time.sleep(0.3)\nos.kill(os.getpid(), signal.SIGSTOP)\ntime.sleep(0.3)\n"
        "report.update(timesteps=300, kl=0.5)\n"
    )
    follower = Follower(RunDir(desk.folder), 1)
    until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
    since = time.monotonic()

    def held() -> bool:
        follower.poll()
        return time.monotonic() - since > 2.0

    until(held)
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=20)
    follower.poll()
    follower.close()
    (row,) = desk.of(UpdateDone)
    assert 0.2 < row.rollout_s < 2.0
    assert row.steps_per_s > 150


def test_a_script_that_waits_for_room_is_said_of_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps its lines, so no row of ours fails that could say so."""
    said: list[TelemetryMessage] = []
    monkeypatch.setattr(Follower, "_say", lambda follower, message: said.append(message))
    monkeypatch.setattr(follow, "FULL_S", 0.0)
    desk.start("from mission_tui import report\nreport.update(timesteps=10, kl=1)").communicate(timeout=20)
    follower = Follower(RunDir(desk.folder), 1)
    follower.poll()
    assert [it for it in said if isinstance(it, TrainerDutyFailed)] == []
    whole = os.statvfs(desk.folder)
    full = os.statvfs_result((*whole[:4], 0, *whole[5:]))
    monkeypatch.setattr(os, "statvfs", lambda path: full)
    follower.poll()
    follower.poll()
    follower.close()
    (failed,) = [it for it in said if isinstance(it, TrainerDutyFailed)]
    assert failed.why == f"the disk of {desk.reported.parent} is full: what the script reports waits for room"


def test_a_checkpoint_is_named_by_its_path(desk: Desk) -> None:
    """A file that the script saved is a row of its own, where the run stands."""
    desk.run("from mission_tui import report\nreport.update(timesteps=10, kl=1)\nreport.checkpoint('model.zip')")
    (saved,) = desk.of(CheckpointSaved)
    assert (saved.name, saved.timesteps, saved.reason) == (str(desk.folder / "model.zip"), 10, "reported")


def test_rows_wait_for_room_on_the_disk(desk: Desk) -> None:
    """What does not fit is not cut: it follows, in order, when there is room."""
    desk.run(
        "import resource, signal, time\nfrom mission_tui import report\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "report.update(timesteps=10, kl=0.5)\ntime.sleep(0.5)\n"
        "_, most = resource.getrlimit(resource.RLIMIT_FSIZE)\nresource.setrlimit(resource.RLIMIT_FSIZE, (300, most))\n"
        "report.update(timesteps=20, kl=0.5)\nreport.update(timesteps=30, kl=0.5)\ntime.sleep(0.5)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))\n"
    )
    assert [row.timesteps for row in desk.of(UpdateDone)] == [10, 20, 30]


def test_without_should_stop_sigterm_ends_the_script(desk: Desk) -> None:
    """A script that never asks dies of SIGTERM as always; one that has a handler of its own keeps it."""
    wait = "import signal, sys, time\nfrom mission_tui import report\n{}report.update(timesteps=10, kl=0.5)\n"
    wait += "time.sleep(0.5)\nprint('up', flush=True)\nwhile True: {}; time.sleep(0.01)"
    for first, each, code in (
        ("", "pass", -signal.SIGTERM),
        ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n", "report.should_stop()", 3),
    ):
        process = desk.start(wait.format(first, each))
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.terminate()
        process.communicate(timeout=10)
        assert process.returncode == code


def test_it_is_one_file_that_can_be_copied(desk: Desk, tmp_path: Path) -> None:
    """It imports the standard library alone, knows our words, and works beside a script without the package."""
    source = Path(report.__file__).read_text(encoding="utf-8")
    imported = {
        name.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import) for name in node.names
    }
    named = {node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)}
    assert {str(it).partition(".")[0] for it in imported | named} <= sys.stdlib_module_names
    assert len(source.splitlines()) < 170
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(report.__file__, folder / "report.py")
    (folder / "train.py").write_text("import report\nreport.update(timesteps=10, kl=0.5)\n")
    desk.environ = {"PYTHONPATH": ""}
    desk.run("", "-S", str(folder / "train.py"))
    assert [row.timesteps for row in desk.of(UpdateDone)] == [10]


def test_a_stop_is_seen_without_a_signal(desk: Desk) -> None:
    """A script behind a shell that passes no signal on sees that it is to stop by a file."""
    process = desk.start(
        "import time\nfrom mission_tui import report\nreport.update(timesteps=10, a=1)\n"
        "while not report.should_stop(): time.sleep(0.02)\nprint('stopped')"
    )
    until(lambda: desk.of(UpdateDone), 20)
    RunDir(desk.folder).attempt(1).stop_asked.touch()
    assert process.communicate(timeout=10)[0] == "stopped\n"


def test_a_folder_that_is_gone_costs_nothing(desk: Desk) -> None:
    """A run that was removed under its script, or a file that cannot be opened, ends no training."""
    desk.environ = {"MISSION_TUI_REPORT": "/nowhere/reported.jsonl"}
    script = (
        "from mission_tui import report\nfor n in range(3): report.update(timesteps=n)\nprint(report.should_stop())"
    )
    assert desk.run(script) == "False\n"


@pytest.mark.slow
def test_numbers_of_arrays_and_tensors(desk: Desk) -> None:
    """A scalar of numpy or torch is its number, of whatever type and with a gradient; an array is none. None warns."""
    pytest.importorskip("torch")
    said = desk.run(
        "import numpy as np, torch as th\nfrom mission_tui import report\n"
        "report.update(timesteps=np.int64(5), a=np.float32(0.5), b=th.tensor(1.5, requires_grad=True) * 2,"
        " c=np.ones(3), d=th.ones(3), e=np.int8(7), f=np.float64('nan'), g=th.tensor(2, dtype=th.bfloat16))\n"
        "report.episode(np.float32(3.0), np.int32(4), np.str_('won'))\nreport.update(timesteps=np.int64(6))"
    )
    assert said == ""
    first, second = desk.of(UpdateDone)
    assert first.metrics == {"train/a": 0.5, "train/b": 3.0, "train/e": 7.0, "train/f": "nan", "train/g": 2.0}
    assert (second.episodes.r, second.episodes.l, second.episodes.outcomes) == ((3.0,), (4,), {"won": 1})


def test_what_is_said_is_valid_json(desk: Desk) -> None:
    """Whoever reads the file with `jq` finds an object a line."""
    desk.run(THREE.replace("approx_kl=0.01", "approx_kl=float('nan')"))
    said = [json.loads(line, parse_constant=pytest.fail) for line in desk.reported.read_bytes().splitlines() if line]
    assert [it["say"] for it in said] == ["process", *["phase", "phase", "update"] * 3]
