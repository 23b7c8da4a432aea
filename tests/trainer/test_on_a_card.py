"""The whole learn path on a card that is not there: nothing is mixed, and what is learned is what a CPU learns."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th

from mission_tui.records.runs.attempt import write_spec
from mission_tui.trainer.ppo import FastPPO
from mission_tui.trainer.ppo.rollout_buffer import Minibatch, ResidentBuffer
from mission_tui.trainer.state.boundary import Tensors
from tests.stand_in_cuda import MixedDevicesError, OnCard, stand_in_cuda
from tests.trainer.contrib_cases import MASKABLE, RECURRENT, needs_contrib
from tests.trainer.harness import PROBES, Ran, new_run, run_attempt, spec_with, stop_in

_WALK = {"n_steps": 16, "batch_size": 16}
CASES: dict[str, dict[str, dict[str, Any]]] = {
    "MLP": {},
    "SB3's engine": {"run": {"engine": "stock"}},
    "normalized": {"env": {"normalize": True}},
    "gSDE": {"env": {"id": "Pendulum-v1"}, "ppo": {"use_sde": True}},
    "episodes cut by time": {"env": {"id": "ShortPendulum-v0", **PROBES}},
    "images": {"env": {"id": "ImageWalk-v0", **PROBES}, "ppo": {"policy": "CnnPolicy", **_WALK}},
    "dictionary": {"env": {"id": "DictWalk-v0", **PROBES}, "ppo": {"policy": "MultiInputPolicy", **_WALK}},
    "several choices": {"env": {"id": "MultiWalk-v0", **PROBES}, "ppo": _WALK},
    "switches": {"env": {"id": "BinaryWalk-v0", **PROBES}, "ppo": _WALK},
}
CONTRIB = {"recurrent": RECURRENT, "maskable": MASKABLE}


def trained(folder: Path, case: dict[str, dict[str, Any]], device: str, **run: Any) -> Ran:
    """Three updates on `device`."""
    tables = {name: dict(table) for name, table in case.items()}
    steps = tables.get("ppo", {}).get("n_steps", 32)
    tables["run"] = {"total_timesteps": 3 * 2 * steps, **tables.get("run", {}), "device": device, **run}
    return run_attempt(new_run(folder, spec_with(**tables)))


def apart(first: Tensors, second: Tensors) -> float:
    """The largest difference of two parameters."""
    assert first.keys() == second.keys()
    return max(float((first[name] - second[name]).abs().max()) for name in first)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        *(pytest.param(case, id=name) for name, case in CASES.items()),
        *(pytest.param(case, id=name, marks=needs_contrib) for name, case in CONTRIB.items()),
    ],
)
@pytest.mark.filterwarnings("ignore:You are trying to run PPO on the GPU")
def test_a_training_on_a_card_mixes_nothing_and_learns_the_same(tmp_path: Path, case: dict[str, Any]) -> None:
    """Three updates: parameters within float32's rounding of those of the CPU, by the same random draws."""
    on_host = trained(tmp_path / "host", case, "cpu")
    with stand_in_cuda():
        on_card = trained(tmp_path / "card", case, "cuda")
    assert (on_host.exit_code, on_card.exit_code) == (0, 0), on_card.ended().cause
    assert apart(on_host.parameters(), on_card.parameters()) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("devices", [("cuda", "cuda"), ("cuda", "cpu"), ("cpu", "cuda")], ids=" then ".join)
@pytest.mark.filterwarnings("ignore:You are trying to run PPO on the GPU")
def test_a_checkpoint_of_one_device_goes_on_on_another(
    tmp_path: Path, devices: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Stopped after two updates and gone on there: as a run that never stopped; it is not called exact on a card, and
    the log says so where only the card is why.
    """
    steps = {"total_timesteps": 4 * 64}
    whole = trained(tmp_path / "whole", {}, "cpu", **steps)
    run_dir = new_run(tmp_path / "parts", spec_with(run=steps))
    ran: Ran | None = None
    for attempt, device in enumerate(devices, start=1):
        write_spec(run_dir.spec, spec_with(run={**steps, "device": device}))
        with stand_in_cuda() if device == "cuda" else nullcontext():
            hook = stop_in("rollout", 2) if attempt == 1 else None
            ran = run_attempt(run_dir, attempt, None if ran is None else ran.ended().checkpoint, hook)
            assert ran.exit_code == 0, ran.ended().cause
    assert ran is not None
    assert not ran.started().exact
    only_the_card = "continued, not exact, because of run.device 'cuda': a GPU need not add up in the same order"
    assert (only_the_card in capsys.readouterr().err) is (devices == ("cuda", "cuda"))
    assert apart(whole.parameters(), ran.parameters()) < 1e-6


def _returns_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ResidentBuffer.gathered

    def gathered(self: ResidentBuffer, order: th.Tensor) -> Minibatch:
        batch = right(self, order)
        return batch._replace(returns=batch.returns.cpu())

    monkeypatch.setattr(ResidentBuffer, "gathered", gathered)


def _observations_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FastPPO, "_on_device", lambda _self, observation: th.as_tensor(observation))


def _read_without_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ResidentBuffer.compute_returns_and_advantage

    def compute(self: ResidentBuffer, last_values: th.Tensor, dones: Any) -> None:
        np.asarray(last_values)
        right(self, last_values, dones)

    monkeypatch.setattr(ResidentBuffer, "compute_returns_and_advantage", compute)


@pytest.mark.parametrize("mistake", [_returns_of_the_host, _observations_of_the_host, _read_without_a_copy])
@pytest.mark.filterwarnings("ignore:You are trying to run PPO on the GPU")
def test_a_planted_mistake_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: Callable[[pytest.MonkeyPatch], None]
) -> None:
    """A minibatch, an observation left on the host, numbers read without a copy: no CPU minds, and a card does."""
    mistake(monkeypatch)
    assert trained(tmp_path / "host", {}, "cpu").exit_code == 0
    with stand_in_cuda():
        on_card = trained(tmp_path / "card", {}, "cuda")
    assert on_card.exit_code != 0
    assert "cuda:0" in on_card.ended().cause


def test_the_card_is_as_strict_as_a_real_one() -> None:
    """Single numbers and indices of the host are welcome; other tensors of it, and reading in place, are not."""
    with stand_in_cuda():
        there = th.arange(3.0, device="cuda")
        assert isinstance(there + th.tensor(1.0), OnCard)
        assert there[th.tensor([0, 2])].tolist() == [0.0, 2.0]
        for mixing in (lambda: there + th.ones(3), lambda: there.index_select(0, th.tensor([0]))):
            with pytest.raises(MixedDevicesError):
                mixing()  # type: ignore[no-untyped-call]
        with pytest.raises(TypeError, match="numpy"):
            np.asarray(there)
        assert there.cpu().numpy().tolist() == [0.0, 1.0, 2.0]
