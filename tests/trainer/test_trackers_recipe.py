"""The recipe of docs/recipes/trackers.md: a stand-in with the trackers' calls proves their order, the real ones run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.trainer.harness import Ran, new_run, run_attempt, spec_with

RECIPES = Path(__file__).resolve().parents[2] / "docs" / "recipes"


class StandIn(ModuleType):
    """Takes the calls that both trackers have, and keeps them."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, call: str) -> Any:
        if call.startswith("__"):
            raise AttributeError(call)
        return lambda *words, **named: self.calls.append((call, words, named))

    @property
    def order(self) -> list[str]:
        return [call for call, _, _ in self.calls]


def tracked(path: Path, tracker: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Ran, Ran]:
    """A run of four updates, and another attempt from its second checkpoint."""
    monkeypatch.syspath_prepend(str(RECIPES))
    kwargs = {"run_dir": "{run_dir}", "project": "tiny", "tracker": tracker}
    part = {"cls": "trackers:Tracker", "kwargs": kwargs}
    keep = {"checkpoint": {"every_steps": 64, "last": 10}}
    spec = spec_with(run={"total_timesteps": 256, "callbacks": [part]}, keep=keep)
    run_dir = new_run(path, spec)
    first = run_attempt(run_dir)
    assert first.exit_code == 0, first.ended().cause
    second = run_attempt(run_dir, 2, "000000128")
    assert second.exit_code == 0, second.ended().cause
    return first, second


@pytest.mark.parametrize("tracker", ["wandb", "trackio"])
def test_each_attempt_begins_sends_its_rows_in_order_and_finishes(
    tracker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same tracked run for both attempts, every row once with its figures, and no row of the attempt before."""
    stand_in = StandIn(tracker)
    monkeypatch.setitem(sys.modules, tracker, stand_in)
    _, second = tracked(tmp_path / "run", tracker, monkeypatch)
    defined = ["define_metric", "define_metric"] if tracker == "wandb" else []
    assert stand_in.order == [*["init", *defined, *["log"] * 4, "finish"], *["init", *defined, *["log"] * 2, "finish"]]
    begun = [named for call, _, named in stand_in.calls if call == "init"]
    assert begun[0] == begun[1]
    assert (begun[0]["name"], begun[0]["project"], begun[0]["resume"]) == ("run", "tiny", "allow")
    assert begun[0]["config"]["env"]["id"] == "CartPole-v1"
    assert begun[0].get("mode") == ("offline" if tracker == "wandb" else None)
    logged = [words[0] for call, words, _ in stand_in.calls if call == "log"]
    assert [figures["timesteps"] for figures in logged] == [64, 128, 192, 256, 192, 256]
    last = second.updates()[-1]
    assert all(logged[-1][tag] == pytest.approx(float(value), nan_ok=True) for tag, value in last.metrics.items())
    steps = [named.get("step") for call, _, named in stand_in.calls if call == "log"]
    assert steps == ([None] * 6 if tracker == "wandb" else [64, 128, 192, 256, 192, 256])


@pytest.mark.skipif(importlib.util.find_spec("wandb") is None, reason="the package wandb is not installed")
def test_wandb_keeps_it_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real one writes one folder an attempt into the run's directory, and asks no network."""
    monkeypatch.setenv("WANDB_SILENT", "true")
    first, _ = tracked(tmp_path / "run", "wandb", monkeypatch)
    assert len(list((first.run_dir.path / "wandb").glob("offline-run-*"))) == 2


@pytest.mark.skipif(importlib.util.find_spec("trackio") is None, reason="the package trackio is not installed")
def test_trackio_keeps_it_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real one has a database of the project in its own folder."""
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    tracked(tmp_path / "run", "trackio", monkeypatch)
    assert any(path.name.startswith("tiny") for path in (tmp_path / "trackio").iterdir())
