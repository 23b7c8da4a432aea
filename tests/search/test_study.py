"""The study of a search, in Optuna's own file: what is known after any end, and which trials are stopped early."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from mission_tui.errors import DamagedError, UsageError
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec
from mission_tui.records.atomic import StorageError
from mission_tui.search.plan import SearchPlan
from mission_tui.search.study import RUNGS, Study, check_installed, mend

BASE = Spec(
    preset="cart",
    env=EnvSpec(id="CartPole-v1"),
    ppo=PpoSpec(n_epochs=10, learning_rate=1e-3),
    run=RunSpec(total_timesteps=1000, seed=1),
)
WORDS = ("ppo.learning_rate=log:1e-5..1e-2", "ppo.n_epochs=4..20", "ppo.clip_range=0.1,0.2")


def opened(path: Path, **more: str) -> Study:
    """The study at `path`, as a driver that begins has it."""
    plan = SearchPlan(base=BASE, params=WORDS, trials=20, **more)  # type: ignore[arg-type]
    return Study(path, "cart-3f9a", plan, plan.parameters)


def test_without_optuna_there_is_one_sentence_with_the_install_line() -> None:
    """Nobody who does not search needs it."""
    lacking = mock.patch.dict(sys.modules, {"optuna": None})
    with lacking, pytest.raises(UsageError, match=r"search needs Optuna, .*\.\[search\]"):
        check_installed()


@pytest.mark.parametrize("other_name", [Path.symlink_to, Path.hardlink_to], ids=["link", "second name"])
def test_no_study_is_mended_through_a_link(tmp_path: Path, other_name: Callable[[Path, Path], None]) -> None:
    """In a run from elsewhere `study.log` may be another file of this user, whose last line may have no end."""
    (tmp_path / "mine").write_text("a line\nand half of one")
    other_name(tmp_path / "study.log", tmp_path / "mine")
    with pytest.raises(StorageError, match=r"study\.log"):
        mend(tmp_path / "study.log")
    assert (tmp_path / "mine").read_text() == "a line\nand half of one"


def test_a_study_goes_on_where_it_was_left(tmp_path: Path) -> None:
    """Finished, pruned, failed and running trials, their runs and settings; the first trial is the preset itself."""
    pytest.importorskip("optuna")
    path = tmp_path / "study.log"
    study = opened(path)
    number, drawn = study.ask()
    assert (number, drawn) == (0, {"ppo.learning_rate": 1e-3, "ppo.n_epochs": 10, "ppo.clip_range": "0.2"})
    study.begin(0, {"ppo.n_epochs": "10"})
    study.note_runs(0, ["a"])
    study.finish(0, 200.0)
    for number in (1, 2, 3):
        assert study.ask()[0] == number
    study.fail(1, "its environment is broken")
    study.report(2, {5: 20.0})
    study.note_pruned(2, 0.1)
    study.prune(2, "pruned at 10 % of its budget")
    study.note_runs(3, ["b", "c"])
    known = study.trials()

    later = opened(path)
    assert later.trials() == known
    assert [(it.state, it.value) for it in known] == [
        ("finished", 200.0),
        ("failed", None),
        ("pruned", 20.0),
        ("running", None),
    ]
    assert (later.runs_of(3), later.pruned_at(2), known[1].why) == (["b", "c"], 0.1, "its environment is broken")
    later.note_pruned(3, 0.9)
    later.finish(3, 150.0)
    assert later.trials()[3].at is None, "it was over before it was stopped"
    assert later.ask()[0] == 4, "the preset itself is tried once"
    assert later.drawn(4) != known[0].settings


def test_a_torn_last_line_and_the_lock_of_a_dead_driver_cost_nothing(tmp_path: Path) -> None:
    """Half a line is cut off before it could be damage in the middle of the file; anything else is no study."""
    pytest.importorskip("optuna")
    path = tmp_path / "study.log"
    opened(path).ask()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"op_code": 4, "worker')
    path.with_name("study.log.lock").symlink_to("study.log")
    study = opened(path)
    assert len(study.trials()) == 1
    study.finish(0, 1.0)
    assert opened(path).trials()[0].value == 1.0
    path.write_text("[1]\n")
    with pytest.raises(DamagedError, match=r"study\.log is no study"):
        opened(path)


@pytest.mark.parametrize(("prune", "stopped"), [("none", False), ("median", True), ("hyperband", True)])
def test_what_falls_behind_is_to_be_pruned(tmp_path: Path, prune: str, stopped: bool) -> None:
    """Of trials half of which stay far below the others; without pruning none is."""
    pytest.importorskip("optuna")
    study = opened(tmp_path / "study.log", prune=prune)
    pruned = []
    for count in range(20):
        number, _ = study.ask()
        pace = 10.0 if count % 2 else 0.1
        if any(study.report(number, {rung: pace * rung}) for rung in range(5, RUNGS, 5)):
            pruned.append(pace)
            study.prune(number, "it fell behind")
        else:
            study.finish(number, pace * RUNGS)
    assert (0.1 in pruned) == stopped


def test_what_mattered_is_optunas_own_and_adds_up_to_1(tmp_path: Path) -> None:
    """Of trials whose result is their learning rate alone, that is what mattered most; of too few nothing is said."""
    optuna = pytest.importorskip("optuna")
    path = tmp_path / "study.log"
    study = opened(path)
    assert study.importance() == {}
    for _ in range(20):
        number, drawn = study.ask()
        study.finish(number, float(drawn["ppo.learning_rate"]))
    found = study.importance()
    assert sum(found.values()) == pytest.approx(1.0)
    assert max(found, key=found.__getitem__) == "ppo.learning_rate"
    storage = optuna.storages.journal.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    read = optuna.load_study(study_name="cart-3f9a", storage=storage)
    assert read.best_value == max(it.value or 0.0 for it in study.trials())
    assert optuna.importance.get_param_importances(read) == pytest.approx(found)
