"""`ppo.policy` and `ppo.policy_kwargs` of the user's own: SB3's numbers, plain errors, and the verbs that need them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import stable_baselines3
import torch as th

from mission_tui.errors import PresetError
from mission_tui.trainer import export
from mission_tui.trainer.building.model import ppo_arguments
from mission_tui.trainer.playing import evaluate
from mission_tui.trainer.state.boundary import copy_parameters
from tests.trainer.harness import alike, equal, new_run, run_attempt, spec_with, stop_in
from tests.trainer.own_parts import Doubting, Extractor
from tests.trainer.sb3_run import sb3_learned

pytestmark = pytest.mark.slow

OWN = "tests.trainer.own_parts"
EXTRACTOR = {"features_extractor_class": f"{OWN}:Extractor", "features_extractor_kwargs": {"width": 5}}
PARTS: dict[str, dict[str, Any]] = {
    "policy": {"policy": f"{OWN}:Doubting", "policy_kwargs": {"doubt": 1.5}},
    "extractor": {"policy_kwargs": EXTRACTOR},
    "extractor, unshared": {"policy_kwargs": EXTRACTOR | {"share_features_extractor": False}},
    "optimizer": {"policy_kwargs": {"optimizer_class": "SGD", "optimizer_kwargs": {"momentum": 0.9}}},
    "activation": {"policy_kwargs": {"activation_fn": "ELU"}, "net_arch": {"pi": [4], "vf": [8, 4]}},
    "all of them": {
        "policy": f"{OWN}:Doubting",
        "policy_kwargs": EXTRACTOR | {"activation_fn": "torch.nn:SiLU", "optimizer_class": "torch.optim:AdamW"},
    },
}


@pytest.mark.parametrize("engine", ["fast", "stock"])
@pytest.mark.parametrize("ppo", PARTS.values(), ids=PARTS)
def test_they_learn_what_they_learn_in_sb3(ppo: dict[str, Any], engine: str, tmp_path: Path) -> None:
    """After six updates every parameter is the same: bit for bit in the stock engine, in the fast one within 1e-5."""
    spec = spec_with(ppo=ppo, run={"engine": engine})
    ran = run_attempt(new_run(tmp_path / "run", spec))
    assert ran.exit_code == 0
    assert alike(ran.parameters(), copy_parameters(sb3_learned(spec).policy), engine)


@pytest.mark.parametrize("ppo", [PARTS["all of them"], PARTS["optimizer"]], ids=["all of them", "optimizer"])
def test_they_resume_exactly_and_can_be_evaluated_and_exported(
    ppo: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Cut in the middle the rest is the same; evaluate plays it; SB3 opens the zip with the user's module at hand."""
    spec = spec_with(ppo=ppo)
    whole = run_attempt(new_run(tmp_path / "whole", spec))
    run_dir = new_run(tmp_path / "run", spec)
    first = run_attempt(run_dir, hook=stop_in("update", 3))
    second = run_attempt(run_dir, 2, first.ended().checkpoint)
    assert second.started().exact
    assert equal(second.parameters(), whole.parameters())
    words = [str(run_dir.path), "--checkpoint", str(second.ended().checkpoint)]
    assert evaluate.main([*words, "--episodes", "2", "--out", str(tmp_path / "result.json")]) == 0
    assert json.loads((tmp_path / "result.json").read_text())["episodes"] == 2
    assert export.main([*words, str(tmp_path / "out.zip")]) == 0
    loaded = stable_baselines3.PPO.load(tmp_path / "out.zip", device="cpu")
    assert equal(copy_parameters(loaded.policy), second.parameters())
    capfd.readouterr()


def test_bare_names_are_those_of_sb3_and_torch() -> None:
    """Classes arrive as classes, and their arguments as they were written."""
    kwargs = {"features_extractor_class": "FlattenExtractor", "activation_fn": "GELU", "log_std_init": -1.0}
    arguments = ppo_arguments(spec_with(ppo={"net_arch": None, "policy_kwargs": kwargs}))["policy_kwargs"]
    assert arguments["features_extractor_class"].__name__ == "FlattenExtractor"
    assert (arguments["activation_fn"], arguments["log_std_init"]) == (th.nn.GELU, -1.0)
    own = ppo_arguments(spec_with(ppo=PARTS["all of them"]))
    assert own["policy"] is Doubting
    assert own["policy_kwargs"]["features_extractor_class"] is Extractor


@pytest.mark.parametrize(
    ("ppo", "sentence"),
    [
        (
            {"policy_kwargs": {"actvation_fn": "ReLU"}},
            "key ppo.policy_kwargs.actvation_fn; did you mean 'activation_fn'",
        ),
        ({"policy_kwargs": {"activation_fn": "Rellu"}}, "ppo.policy_kwargs.activation_fn: module 'torch.nn' has no"),
        ({"policy_kwargs": {"activation_fn": "Relu"}}, "module 'torch.nn' has no 'Relu'; did you mean 'ReLU'?"),
        ({"policy_kwargs": {"activation_fn": "Module.x"}}, "has no 'x'"),
        ({"policy_kwargs": {"activation_fn": "torch:relu"}}, "must be a class derived from torch.nn"),
        ({"policy_kwargs": {"optimizer_class": "AdamV"}}, "did you mean 'Adam"),
        ({"policy_kwargs": {"optimizer_kwargs": {"epss": 1}}}, "key ppo.policy_kwargs.optimizer_kwargs.epss"),
        ({"policy_kwargs": {"features_extractor_class": "NatureCn"}}, "did you mean 'NatureCNN'"),
        ({"policy_kwargs": {"features_extractor_class": f"{OWN}:Doubting"}}, "BaseFeaturesExtractor"),
        (
            {"policy_kwargs": EXTRACTOR | {"features_extractor_kwargs": {"widht": 3}}},
            "key ppo.policy_kwargs.features_extractor_kwargs.widht; did you mean 'width'?",
        ),
        ({"policy": f"{OWN}:Doubtin"}, "has no 'Doubtin'; did you mean 'Doubting'?"),
        ({"policy": f"{OWN}:Extractor"}, "is no policy"),
        ({"policy": "nowhere:Policy"}, "module 'nowhere' cannot be imported"),
    ],
)
def test_what_does_not_fit_names_the_key_and_the_nearest(ppo: dict[str, Any], sentence: str) -> None:
    """Before anything is built."""
    with pytest.raises(PresetError) as refused:
        ppo_arguments(spec_with(ppo=ppo))
    assert sentence in str(refused.value)
