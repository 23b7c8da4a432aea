"""A search with real trainings, ended by SIGKILL in the middle."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.shell import Shell
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PRESET = """description = "CartPole, quickly"
[env]
id = "CartPole-v1"
n_envs = 8
vec = "inline"
[ppo]
n_steps = 64
batch_size = 128
n_epochs = 4
learning_rate = 3e-4
[run]
total_timesteps = 5_120
seed = 1
threads = 1
"""


def told(fleet: Shell) -> dict[str, Any]:
    """What the search has come to."""
    search: dict[str, Any] = fleet.json("search", "--show", "hunt")["search"]
    return search or {"trials": []}


def over(search: dict[str, Any]) -> dict[int, Any]:
    """The trials that are over, by number."""
    return {trial["number"]: trial for trial in search["trials"] if trial["state"] != "running"}


def test_a_search_killed_in_the_middle_loses_no_trial_that_was_over(fleet: Shell) -> None:
    """SIGKILL of driver, supervisor, keepers and trainers; `--continue` goes on to the end, the winner is judged with
    fresh seeds, and Optuna reads its file.
    """
    optuna = pytest.importorskip("optuna")
    (Path(fleet.cwd) / "cart.toml").write_text(PRESET, encoding="utf-8")
    words = ("--preset", "cart.toml", "--param", "ppo.learning_rate=log:1e-5..1e-2", "--param", "ppo.n_epochs=1..8")
    begun = fleet("search", *words, "--trials", "12", "-j", "4", "--prune", "--confirm", "3", "--name", "hunt")
    assert begun.returncode == 0, begun.stderr
    until(lambda: len(over(told(fleet))) >= 4, 240, "four trials are over")
    known = over(told(fleet))
    for process in fleet.processes():
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)
    until(lambda: not fleet.processes(), 20, "nothing is left")
    done = fleet.json("search", "--continue", "hunt", "--wait", timeout_s=400)
    search = done["search"]
    assert search["ended"], search
    assert len(search["trials"]) == 12
    assert {number: over(search)[number] for number in known} == known
    assert {trial["state"] for trial in search["trials"]} <= {"finished", "pruned"}, search["trials"]
    assert sum(search["importance"].values()) == pytest.approx(1.0)
    assert search["confirmation"]["says"] in ("better", "worse", "no verdict", "same")
    views = {view["id"]: view for view in fleet.views()}
    for trial in search["trials"]:
        (run,) = trial["runs"]
        assert views[run]["group"] == "hunt"
        if trial["state"] == "pruned" and views[run]["outcome"] in ("failed", "lost"):
            continue  # it was to be stopped when it was killed
        assert views[run]["outcome"] == ("stopped" if trial["state"] == "pruned" else "finished"), views[run]
        assert trial["state"] == "finished" or list((fleet.root / run / "checkpoints").glob("0*"))
    (file,) = fleet.root.glob("*-hunt-search-*/study.log") or fleet.root.glob("*/study.log")
    storage = optuna.storages.journal.JournalStorage(optuna.storages.journal.JournalFileBackend(str(file)))
    study = optuna.load_study(study_name="hunt", storage=storage)
    assert [it.state.name for it in study.trials] == [
        "COMPLETE" if trial["state"] == "finished" else "PRUNED" for trial in search["trials"]
    ]
    assert study.best_trial.number == search["best"]
    assert fleet("supervisor", "status").returncode == 0
