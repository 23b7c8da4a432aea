"""Ids that published models bear: the package that registers them, and what stands for them today."""

from __future__ import annotations

import pytest

from mission_tui.errors import PresetError
from mission_tui.fleet.specs.env_ids import package_of, pooled_procgen, today
from mission_tui.fleet.specs.spec import EnvSpec
from mission_tui.trainer.named_parts import find_env

MADE: tuple[str, ...] = (
    "LunarLander-v3",
    "Ant-v4",
    "Ant-v5",
    "HalfCheetah-v4",
    "HalfCheetah-v5",
    "CarRacing-v3",
    "Taxi-v4",
    "Box2D",
)
MADE += ("ALE/Breakout-v5",)


@pytest.mark.parametrize(
    ("env_id", "package"),
    [
        ("PongNoFrameskip-v4", "ale_py"),
        ("Pong-ramDeterministic-v0", "ale_py"),
        ("ALE/Pong-v5", "ale_py"),
        ("Breakout-v0", "ale_py"),
        ("SpaceInvaders-ram-v4", "ale_py"),
        ("HalfCheetahBulletEnv-v0", "pybullet_envs_gymnasium"),
        ("MiniGrid-DoorKey-5x5-v0", "minigrid"),
        ("CartPole-v1", None),
        ("PongNoFrameskip-v9", None),
        ("my_envs:Foo-v0", None),
    ],
)
def test_the_package_is_known_by_the_name(env_id: str, package: str | None) -> None:
    """Only families of names that no other package uses."""
    assert package_of(env_id) == package


@pytest.mark.parametrize(
    ("env_id", "said"),
    [
        ("LunarLander-v2", "'LunarLander-v3' is the same task today: --set env.id=LunarLander-v3"),
        ("HalfCheetah-v3", "'HalfCheetah-v4' is the same task today: --set env.id=HalfCheetah-v4"),
        ("HalfCheetah-v2", "'HalfCheetah-v4' is the same task today: --set env.id=HalfCheetah-v4"),
        ("Breakout-v5", "'ALE/Breakout-v5' is the same task today: --set env.id=ALE/Breakout-v5"),
        ("CarRacing-v0", "nearest version is 'CarRacing-v3', which may be another task (--set env.id=CarRacing-v3)"),
        ("Taxi-v9", "nearest version is 'Taxi-v4', which may be another task (--set env.id=Taxi-v4)"),
    ],
)
def test_an_old_id_is_answered_with_todays(env_id: str, said: str) -> None:
    """The same task where there is one, else the nearest version, which is not called the same."""
    assert str(today(env_id, MADE)).removeprefix("its ") == said


def test_what_is_different_is_named() -> None:
    """Ant's observations became fewer, so its policies cannot be taken over."""
    said = "'Ant-v4' is the nearest (--set env.id=Ant-v4): the 84 contact forces that Ant-v3 observed"
    assert str(today("Ant-v3", MADE)).startswith(said)


@pytest.mark.parametrize("env_id", ["CartPol-v1", "Box2D", "plain", "LunarLander-v99x"])
def test_other_names_are_left_to_the_nearest_word(env_id: str) -> None:
    """A slip of the pen is no old version."""
    assert today(env_id, MADE) is None


@pytest.mark.parametrize("env_id", ["procgen-coinrun-v0", "procgen:procgen-coinrun-v0"])
def test_a_game_of_procgen_is_answered_with_the_id_that_works(env_id: str) -> None:
    """envpool has all sixteen, under a name for each distribution of levels; other ids get no such answer."""
    said = str(pooled_procgen(env_id))
    assert "--set env.id=envpool:CoinrunHard-v0 --set ppo.policy=CnnPolicy (extra `fast-envs`)" in said
    assert "'envpool:CoinrunEasy-v0'" in said
    with pytest.raises(PresetError, match="envpool:CoinrunHard-v0"):
        find_env(EnvSpec(id=env_id))
    assert pooled_procgen("procgen-chess-v0") is None
