"""Ids of environments as published models and presets have them: the package that registers each, and under which id
Gymnasium makes the same task today.

Environments are renamed, and moved from package to package; what was published with their old names stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_GAMES = (
    "Adventure|AirRaid|Alien|Amidar|Assault|Asterix|Asteroids|Atlantis|BankHeist|BattleZone|BeamRider|Berzerk|Bowling|"
    "Boxing|Breakout|Carnival|Centipede|ChopperCommand|CrazyClimber|Defender|DemonAttack|DoubleDunk|ElevatorAction|"
    "Enduro|FishingDerby|Freeway|Frostbite|Gopher|Gravitar|Hero|IceHockey|Jamesbond|JourneyEscape|Kangaroo|Krull|"
    "KungFuMaster|MontezumaRevenge|MsPacman|NameThisGame|Phoenix|Pitfall|Pong|Pooyan|PrivateEye|Qbert|Riverraid|"
    "RoadRunner|Robotank|Seaquest|Skiing|Solaris|SpaceInvaders|StarGunner|Tennis|TimePilot|Tutankham|UpNDown|Venture|"
    "VideoPinball|WizardOfWor|YarsRevenge|Zaxxon"
)
"""Atari's, of which papers name versions 0 and 4 without a word of frames."""

_PACKAGES = (
    (re.compile(r"ALE/.+|[A-Z][A-Za-z]+(?:-ram)?(?:NoFrameskip|Deterministic)-v[04]"), "ale_py"),
    (re.compile(rf"(?:{_GAMES})(?:-ram)?-v[045]"), "ale_py"),
    (re.compile(r"[A-Z][A-Za-z0-9]+BulletEnv-v\d+"), "pybullet_envs_gymnasium"),
    (re.compile(r"(?:MiniGrid|BabyAI)-.+"), "minigrid"),
)
"""RL Zoo imports them by itself, so that nothing in its settings names them."""

PLAIN_PACKAGES = frozenset(("pybullet_envs_gymnasium", "minigrid"))
"""Those that no extra of ours brings; pip knows each by the module's name."""

PUBLISHED = PLAIN_PACKAGES | {"ale_py", "cv2", "envpool"}
"""Modules that shipped presets name, and those of published agents: what is installed, and nobody's own."""

_SAME = {"LunarLander-v2": "LunarLander-v3", "LunarLanderContinuous-v2": "LunarLanderContinuous-v3"}
_SAME |= {"Pendulum-v0": "Pendulum-v1"}
_SAME |= {f"{name}-v3": f"{name}-v4" for name in ("HalfCheetah", "Hopper", "Swimmer", "Walker2d")}
_SAME |= {f"{name}-v2": f"{name}-v4" for name in ("HalfCheetah", "Hopper", "Swimmer", "Walker2d", "Reacher")}
_SAME |= {f"{name}-v2": f"{name}-v4" for name in ("InvertedPendulum", "InvertedDoublePendulum")}
_SAME |= {f"{game}-v5": f"ALE/{game}-v5" for game in _GAMES.split("|")}
"""By the version histories in Gymnasium's documentation observations, actions and rewards stayed; of MuJoCo's tasks
only the binding changed, while v5 of most of them is another task.
"""

_ANT = "the 84 contact forces that {old} observed, and that were always 0, are left out, so no network fits both"
_DIFFERENT = {"Ant-v2": _ANT, "Ant-v3": _ANT, "Humanoid-v3": "its reward has no cost of contacts"}

_PROCGEN = re.compile(
    r"(?:procgen:)?procgen-(bigfish|bossfight|caveflyer|chaser|climber|coinrun|dodgeball|fruitbot|heist|jumper|leaper|maze"
    r"|miner|ninja|plunder|starpilot)-v0"
)

_VERSIONED = re.compile(r"(.+)-v(\d+)")


def package_of(env_id: str) -> str | None:
    """The module that registers `env_id`, where its name tells that it is not one of Gymnasium's own."""
    return next((package for pattern, package in _PACKAGES if pattern.fullmatch(env_id)), None)


def pooled_procgen(env_id: str) -> str | None:
    """A sentence's end that says under which id envpool has the game of Procgen that `env_id` is; None for all else.

    The package `procgen` has wheels up to Python 3.10 and registers with gym, which Gymnasium followed.
    """
    found = _PROCGEN.fullmatch(env_id)
    if found is None:
        return None
    game = f"envpool:{found[1].capitalize()}"
    return (
        f"is a game of procgen, which envpool has as '{game}Hard-v0', procgen's own default, and '{game}Easy-v0': "
        f"--set env.id={game}Hard-v0 --set ppo.policy=CnnPolicy (extra `fast-envs`)"
    )


def today(env_id: str, made: Iterable[str]) -> str | None:
    """A sentence's end that says which of the ids in `made` stands for `env_id` now; None where none does."""
    known = frozenset(made)
    if (same := _SAME.get(env_id)) in known:
        return f"'{same}' is the same task today: --set env.id={same}"
    near = _nearest_version(env_id, known)
    if near is None:
        return None
    if env_id in _DIFFERENT:
        return f"'{near}' is the nearest (--set env.id={near}): {_DIFFERENT[env_id].format(old=env_id)}"
    return f"its nearest version is '{near}', which may be another task (--set env.id={near})"


def _nearest_version(env_id: str, known: Iterable[str]) -> str | None:
    """The id of its name with the next version; with the last one where all are earlier."""
    asked = _VERSIONED.fullmatch(env_id)
    if asked is None:
        return None
    versions = [int(it[2]) for it in map(_VERSIONED.fullmatch, known) if it is not None and it[1] == asked[1]]
    later = [version for version in versions if version > int(asked[2])]
    return f"{asked[1]}-v{min(later) if later else max(versions)}" if versions else None
