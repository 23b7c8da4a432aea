"""One environment of a spec against the contract that SB3 and Gymnasium expect of it, by their own checkers."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
from gymnasium.utils.env_checker import check_env as check_for_gymnasium
from stable_baselines3.common.env_checker import check_env as check_for_sb3

from mission_tui.errors import PresetError, raised_by
from mission_tui.fleet.specs.checking import Level
from mission_tui.fleet.specs.spec import Spec
from mission_tui.trainer.env_ids import make_env, native_refusal
from mission_tui.trainer.json_lines import Say
from mission_tui.trainer.spaces import refusal, short

__all__ = ["check_one"]

_SHOWN_NOTES = 3


def check_one(spec: Spec, say: Say) -> tuple[Level, str]:
    """What the checkers say of one environment. Raises `PresetError` where it, or its spaces, cannot be trained."""
    say({"doing": f"making an environment of env.id '{spec.env.id}'"})
    env = make_env(spec.env, None, around=lambda made: made)
    try:
        sentence = refusal(env.observation_space, env.action_space, spec.ppo)
        if sentence is None and spec.env.vec == "native":
            sentence = native_refusal(spec.env)
        if sentence is not None:
            raise PresetError(f"env.id '{spec.env.id}' cannot be trained: {sentence}")
        spaces = f"{short(env.observation_space)} -> {short(env.action_space)}"
        say({"doing": f"resetting and stepping an environment of env.id '{spec.env.id}'"})
        return _checked(env, spec.env.id, spaces)
    finally:
        env.close()


def _checked(env: gymnasium.Env[Any, Any], env_id: str, spaces: str) -> tuple[Level, str]:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            check_for_sb3(env)
        except Exception as error:  # noqa: BLE001 - a checker raises what it finds, and so does a foreign environment
            return "failed", f"env.id '{env_id}' breaks the contract of SB3's check_env: {raised_by(error)}"
        try:
            check_for_gymnasium(env.unwrapped, skip_render_check=True, skip_close_check=True)
        except Exception as error:  # noqa: BLE001 - likewise, but SB3 trains with what only Gymnasium refuses
            heard.append(_warning(f"Gymnasium's check_env: {raised_by(error)}"))
    said = dict.fromkeys(" ".join(_plain(str(one.message)).split()) for one in heard)
    notes = list(said)[:_SHOWN_NOTES]
    if len(said) > len(notes):
        notes.append(f"{len(said) - len(notes)} more warnings")
    return ("note" if notes else "ok"), "; ".join((spaces, *notes))


def _warning(sentence: str) -> warnings.WarningMessage:
    return warnings.WarningMessage(UserWarning(sentence), UserWarning, "", 0)


def _plain(text: str) -> str:
    """Without the colours that Gymnasium puts around its words."""
    return text.replace("\x1b[33m", "").replace("\x1b[0m", "").removeprefix("WARN: ")
