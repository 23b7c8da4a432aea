"""How a training goes wrong, as exceptions, and which failure kind any exception stands for.

Light on purpose: the exceptions are raised from environments and workers, which must not import torch for it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

from mission_tui.errors import EX_CONFIG, EX_FAILED, MissionError, PresetError, raised_by
from mission_tui.fleet.events.outcome import NO_GPU_MEMORY, NO_MEMORY

FailureKind = Literal["config", "env", "callback", "nan", "oom", "gpu_lost", "unknown"]

_OOM_SIGNS = (*NO_GPU_MEMORY, *NO_MEMORY)
_LOST_SIGNS = ("GPU is lost", "fallen off the bus", "device unavailable", "no CUDA-capable device")
_CAUSE_LIMIT = 400


class EnvError(MissionError):
    """An environment raised, or the process it lived in died."""


class CallbackError(MissionError):
    """A callback of the preset raised; its cause is what it raised."""


class NonFiniteError(MissionError):
    """A reward, a loss or a parameter is nan or infinite; what the model holds now must never be saved."""


class NonFiniteEnvError(NonFiniteError):
    """The environment itself gave it, as a reward or in an observation."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What ended a training: its kind, one sentence, and the exit code of the process."""

    kind: FailureKind
    cause: str
    from_env: bool = False
    """A number that is not finite came from the environment."""

    @property
    def exit_code(self) -> int:
        return EX_CONFIG if self.kind == "config" else EX_FAILED


def classify(error: BaseException) -> Failure:
    """The failure that `error` stands for."""
    return Failure(_kind(error), _sentence(error), isinstance(error, NonFiniteEnvError))


def complain(sentence: str) -> None:
    """Say `sentence` on stderr, which is the log of the attempt."""
    print(f"mission-tui: {sentence}", file=sys.stderr)  # noqa: T201 - the one place that does


def _kind(error: BaseException) -> FailureKind:
    match error:
        case PresetError():
            return "config"
        case EnvError():
            return "env"
        case NonFiniteError():
            return "nan"
        case MemoryError():
            return "oom"
        case CallbackError():
            # A callback may be where the memory or the GPU went.
            kind = "unknown" if error.__cause__ is None else _kind(error.__cause__)
            return kind if kind in ("oom", "gpu_lost") else "callback"
    torch = sys.modules.get("torch")
    message = str(error)
    if torch is not None and isinstance(error, torch.cuda.OutOfMemoryError):
        return "oom"
    if isinstance(error, RuntimeError) and any(sign in message for sign in _OOM_SIGNS):
        return "oom"
    if isinstance(error, RuntimeError) and any(sign in message for sign in _LOST_SIGNS):
        return "gpu_lost"
    return "unknown"


def _sentence(error: BaseException) -> str:
    text = str(error) if isinstance(error, MissionError) else raised_by(error)
    return " ".join(text.split())[:_CAUSE_LIMIT]
