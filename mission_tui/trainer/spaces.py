"""Which observation and action spaces PPO and its neighbours can be trained on, and how a space is named in one word.

Needs gymnasium and NumPy only, so that a preflight answers without torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mission_tui.envs.masks import MASKS
from mission_tui.errors import CheckpointError
from mission_tui.fleet.specs.sb3_algorithms import OTHERS, other_algorithm
from mission_tui.fleet.specs.spec import PpoSpec, Spec, other_settings

_NATURE_PIXELS = 36
"""Fewer in a side leave nothing of an image behind the third convolution of SB3's `NatureCNN`."""
_MULTI_INPUT = {"MlpPolicy": "MultiInputPolicy", "CnnPolicy": "MultiInputPolicy"} | {
    "MlpLstmPolicy": "MultiInputLstmPolicy",
    "CnnLstmPolicy": "MultiInputLstmPolicy",
}


def short(space: spaces.Space[Any]) -> str:
    """``Box(4,)``, ``Discrete(2)``, ``MultiDiscrete([9 9])``: the space without its bounds."""
    return f"Box{space.shape}" if isinstance(space, spaces.Box) else str(space)


def described(space: spaces.Space[Any]) -> dict[str, Any] | None:
    """The space as JSON values and arrays, so that it is known without its environment; None for a kind of its own."""
    match space:
        case spaces.Box():
            bounds = {"low": _bound(space.low), "high": _bound(space.high)}
            return {"kind": "box", "shape": list(space.shape), "dtype": str(space.dtype), **bounds}
        case spaces.Discrete():
            return {"kind": "discrete", "n": int(space.n), "start": int(space.start)}
        case spaces.MultiDiscrete():
            return {"kind": "multi_discrete", "nvec": np.array(space.nvec), "start": np.array(space.start)}
        case spaces.MultiBinary():
            return {"kind": "multi_binary", "shape": list(space.shape)}
        case spaces.Dict():
            parts = {key: described(part) for key, part in space.items()}
            whole = all(part is not None for part in parts.values())
            return {"kind": "dict", "spaces": [[key, parts[key]] for key in parts]} if whole else None
        case _:
            return None


def described_space(said: Any) -> spaces.Space[Any]:
    """The space of a description. Raises `CheckpointError` for what is none."""
    try:
        return _described_space(said)
    except (KeyError, TypeError, ValueError, AssertionError, AttributeError) as error:
        raise CheckpointError(f"the checkpoint's description of its spaces cannot be read: {error!r}") from error


def _described_space(said: Any) -> spaces.Space[Any]:
    match said["kind"]:
        case "box":
            shape, dtype = tuple(said["shape"]), np.dtype(said["dtype"])
            low, high = (np.broadcast_to(np.asarray(said[key], dtype), shape) for key in ("low", "high"))
            return spaces.Box(low.copy(), high.copy(), dtype=dtype.type)
        case "discrete":
            return spaces.Discrete(said["n"], start=said["start"])
        case "multi_discrete":
            return spaces.MultiDiscrete(said["nvec"], start=said["start"])
        case "multi_binary":
            shape = said["shape"]
            return spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)
        case "dict":
            return spaces.Dict({key: _described_space(part) for key, part in said["spaces"]})
        case kind:
            raise ValueError(f"no kind of space is called {kind}")


def _bound(values: NDArray[Any]) -> NDArray[Any]:
    """The bounds as they are, one number where all are the same: those of an image would be as large as itself."""
    return np.array(values.flat[0]) if values.size and (values == values.flat[0]).all() else np.array(values)


def refusal(observations: spaces.Space[Any], actions: spaces.Space[Any], ppo: PpoSpec) -> str | None:
    """Why PPO cannot be trained on these spaces with this policy, as a sentence; None if it can."""
    return _action_refusal(actions, ppo) or _observation_refusal(observations, ppo)


def refusal_of(spec: Spec, observations: spaces.Space[Any], actions: spaces.Space[Any]) -> str | None:
    """Why the algorithm of `spec` cannot be trained on these spaces, as a sentence; None if it can."""
    other, settings = other_algorithm(spec.run.algo), other_settings(spec)
    if other is None or settings is None:
        return refusal(observations, actions, spec.ppo)
    kind = type(actions).__name__
    if kind not in other.actions:
        fit = ", ".join(name for name, it in OTHERS.items() if kind in it.actions)
        takes = " or ".join(other.actions)
        near = f"; PPO, {fit} take them" if fit and kind in ("Box", "Discrete", "MultiDiscrete", "MultiBinary") else ""
        return f"its actions {short(actions)} are not supported; {other.called} takes {takes}{near}"
    if isinstance(actions, spaces.Box) and not np.isfinite([actions.low, actions.high]).all():
        return (
            f"its actions {short(actions)} are unbounded; {other.called} needs finite bounds, wrap it in RescaleAction"
        )
    if getattr(settings, "use_sde", False) and not isinstance(actions, spaces.Box):
        return f"{other.name}.use_sde needs continuous actions, and these are {short(actions)}"
    if (
        isinstance(observations, spaces.Dict)
        and "MultiInputPolicy" not in other.policies
        and ":" not in settings.policy
    ):
        return f"its observations are a dictionary; {other.called} takes arrays"
    # Policies are called alike in all of them; the words name PPO's key.
    alike = PpoSpec(policy=settings.policy, policy_kwargs=settings.policy_kwargs)
    sentence = _observation_refusal(observations, alike)
    return None if sentence is None else sentence.replace("ppo.", f"{other.name}.").replace("PPO", other.called)


def masks_refusal(ppo: PpoSpec, *, offered: bool) -> str | None:
    """Why an environment that does or does not offer action masks cannot be trained on, as a sentence."""
    if ppo.algo != "maskable_ppo" or offered:
        return None
    return (
        f"ppo.algo = 'maskable_ppo' asks it for {MASKS}() before every step, and it has no such method; "
        "give it one, wrap it in one that has, or use ppo.algo = 'ppo'"
    )


def _action_refusal(actions: spaces.Space[Any], ppo: PpoSpec) -> str | None:
    match actions:
        case spaces.Box() if ppo.algo == "maskable_ppo":
            return f"ppo.algo = 'maskable_ppo' masks discrete actions, and these are {short(actions)}; use 'ppo'"
        case spaces.Box() if not np.isfinite([actions.low, actions.high]).all():
            return f"its actions {short(actions)} are unbounded; PPO needs finite bounds, wrap it in RescaleAction"
        case spaces.MultiBinary() if not isinstance(actions.n, int):
            return f"its actions {short(actions)} have several dimensions; flatten them"
        case spaces.Box() | spaces.Discrete() | spaces.MultiDiscrete() | spaces.MultiBinary():
            pass
        case _:
            taken = "Box, Discrete, MultiDiscrete and MultiBinary"
            return f"its actions {short(actions)} are not supported; PPO takes {taken}"
    if ppo.use_sde and not isinstance(actions, spaces.Box):
        return f"ppo.use_sde needs continuous actions, and these are {short(actions)}"
    return None


def _observation_refusal(observations: spaces.Space[Any], ppo: PpoSpec) -> str | None:
    match observations:
        case spaces.Tuple():
            return "its observations are a Tuple; PPO takes arrays and flat dictionaries"
        case spaces.Dict():
            if any(isinstance(part, spaces.Dict | spaces.Tuple) for part in observations.values()):
                return "its observations are nested; PPO takes arrays and flat dictionaries"
            if ppo.policy in _MULTI_INPUT:
                return f"its observations are a dictionary; use ppo.policy = '{_MULTI_INPUT[ppo.policy]}'"
        case _ if ppo.policy in _MULTI_INPUT.values():
            return f"ppo.policy = '{ppo.policy}' needs a dictionary, and its observations are {short(observations)}"
        case _ if ppo.policy.startswith("Cnn") and ":" not in ppo.policy:
            return _image_refusal(observations, ppo)
    return None


def _image_refusal(observations: spaces.Space[Any], ppo: PpoSpec) -> str | None:
    shape = observations.shape or ()
    if len(shape) != 3:
        return f"ppo.policy = '{ppo.policy}' needs images, and its observations are {short(observations)}"
    height, width = _sides(shape)
    if "features_extractor_class" not in ppo.policy_kwargs and min(height, width) < _NATURE_PIXELS:
        return (
            f"SB3's NatureCNN needs images of at least {_NATURE_PIXELS} x {_NATURE_PIXELS}, and its observations are "
            f"{short(observations)}; give ppo.policy_kwargs.features_extractor_class"
        )
    return None


def stack_refusal(observations: spaces.Space[Any]) -> str | None:
    """Why several observations cannot be shown at once, as a sentence; None if they can."""
    parts = observations.values() if isinstance(observations, spaces.Dict) else (observations,)
    if all(isinstance(part, spaces.Box) and part.shape for part in parts):
        return None
    return f"env.frame_stack stacks arrays, and the observations are {short(observations)}; leave it out"


def stacked(observations: spaces.Space[Any], frames: int) -> spaces.Space[Any]:
    """The space of `frames` observations as SB3's `VecFrameStack` shows them: along the channels of an image, else
    along the last axis.
    """
    if isinstance(observations, spaces.Dict):
        return spaces.Dict({key: stacked(part, frames) for key, part in observations.items()})
    assert isinstance(observations, spaces.Box)
    axis = 0 if _channels_first(observations) else -1
    low, high = (np.repeat(bound, frames, axis=axis) for bound in (observations.low, observations.high))
    return spaces.Box(low, high, dtype=observations.dtype.type)


def _channels_first(space: spaces.Box) -> bool:
    """As SB3's `is_image_space_channels_first`: the shortest axis of an image is its channels."""
    return space.dtype == np.uint8 and len(space.shape) == 3 and int(np.argmin(space.shape)) == 0


def _sides(shape: tuple[int, ...]) -> tuple[int, int]:
    return (shape[1], shape[2]) if int(np.argmin(shape)) == 0 else (shape[0], shape[1])
