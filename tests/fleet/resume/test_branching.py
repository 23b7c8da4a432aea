"""A branch is offered where a layer of both networks may have one shape."""

from __future__ import annotations

import pytest

from mission_tui.fleet.resume.judge import weights_may_fit
from mission_tui.fleet.specs.preset import draft_change
from tests.fleet.resuming import WAS


@pytest.mark.parametrize(
    ("was", "now", "fits"),
    [
        ("", "ppo.net_arch=[128,128]", False),
        ("", "ppo.net_arch=[64,128]", True),
        ("", "ppo.net_arch=[128,64]", True),
        ("", "ppo.net_arch=[]", True),
        ("ppo.net_arch=[64,32,32,16]", "ppo.net_arch=[8,32,32,8]", True),
        ("ppo.net_arch=[64,32,16]", "ppo.net_arch=[8,32,8]", False),
        ("", "ppo.net_arch={pi=[128],vf=[64]}", True),
        ("", "ppo.net_arch={pi=[128],vf=[32]}", False),
        ("", "ppo.net_arch=[128] env.id=Acrobot-v1", False),
        ("ppo.policy=CnnPolicy", "ppo.net_arch=[128]", True),
        ("ppo.policy_kwargs={share_features_extractor=false}", "ppo.net_arch=[128]", True),
        ("ppo.algo=recurrent_ppo ppo.policy=MlpLstmPolicy", "ppo.net_arch=[128]", True),
        ("run.algo=sac", "sac.net_arch=[128]", False),
        ("run.algo=sac", "sac.net_arch={pi=[256],qf=[8]}", True),
        ("run.algo=crossq", "crossq.net_arch={pi=[1024],qf=[256]}", False),
    ],
)
def test_layers_of_one_shape_fit(was: str, now: str, fits: bool) -> None:
    """Where the layers are not all that the network is, nobody can say that none fits."""
    before = draft_change(WAS, was.split())
    assert weights_may_fit(before, draft_change(before, now.split())) is fits
