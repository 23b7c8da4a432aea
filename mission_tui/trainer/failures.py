"""How a training goes wrong, as exceptions, and which failure kind any exception stands for.

Light on purpose: the exceptions are raised from environments and workers, which must not import torch for it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from sysconfig import get_paths
from typing import Literal, NamedTuple

from mission_tui.errors import EX_CONFIG, EX_FAILED, MissionError, PresetError, raised_by
from mission_tui.fleet.events.outcome import NO_GPU_MEMORY, NO_MEMORY

FailureKind = Literal["config", "env", "callback", "nan", "oom", "gpu_lost", "gpu_fault", "unknown"]

_OOM_SIGNS = (*NO_GPU_MEMORY, *NO_MEMORY)
_CAUSE_LIMIT = 400
_STANDARD_LIBRARY = tuple(f"{get_paths()[name]}/" for name in ("stdlib", "platstdlib"))
_INSTALLED = ("/site-packages/", "/dist-packages/")


class _GpuError(NamedTuple):
    """What CUDA says (any of `signs`), which kind that is, and what a person can do about it."""

    signs: tuple[str, ...]
    kind: FailureKind
    advice: str


_BLOCKING = "run.env.CUDA_LAUNCH_BLOCKING=1 says in which line"
_GPU_ERRORS = (
    _GpuError(
        ("device-side assert",),
        "gpu_fault",
        f"a kernel got an index out of range, often of an action or an observation outside of its space; {_BLOCKING}",
    ),
    _GpuError(
        (
            "illegal memory access",
            "misaligned address",
            "illegal instruction was encountered",
            "unspecified launch failure",
            "the launch timed out",
            "CUBLAS_STATUS_EXECUTION_FAILED",
            "CUDNN_STATUS_EXECUTION_FAILED",
        ),
        "gpu_fault",
        f"a kernel broke off: of this run, or under MPS of one beside it; {_BLOCKING}",
    ),
    _GpuError(
        ("uncorrectable ECC error", "uncorrectable NVLink error"),
        "gpu_lost",
        "memory of the GPU is broken: `nvidia-smi -q` says more, and a reset or a restart of the machine may help",
    ),
    _GpuError(
        ("GPU is lost", "fallen off the bus", "device unavailable", "no CUDA-capable device"),
        "gpu_lost",
        "`nvidia-smi` and the kernel's log say more",
    ),
    _GpuError(
        ("no kernel image is available",),
        "config",
        "this torch was built without kernels for this GPU: install one that has them, or set run.device = 'cpu'",
    ),
    _GpuError(
        ("driver on your system is too old", "driver version is insufficient"),
        "config",
        "install a newer driver, or a torch for an older CUDA, or set run.device = 'cpu'",
    ),
)


class EnvError(MissionError):
    """An environment raised, or the process it lived in died."""


class EnvMemoryError(EnvError):
    """It was memory that an env worker got none of, or for whose lack the kernel killed it."""


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
        case EnvMemoryError():
            return "oom"
        case EnvError():
            # In the trainer's own process it is the cause that says so.
            return "oom" if error.__cause__ is not None and _kind(error.__cause__) == "oom" else "env"
        case NonFiniteError():
            return "nan"
        case MemoryError():
            return "oom"
        case CallbackError():
            # A callback may be where the memory or the GPU went.
            kind = "unknown" if error.__cause__ is None else _kind(error.__cause__)
            return kind if kind in ("oom", "gpu_lost", "gpu_fault") else "callback"
    torch = sys.modules.get("torch")
    message = str(error)
    if torch is not None and isinstance(error, torch.cuda.OutOfMemoryError):
        return "oom"
    if isinstance(error, RuntimeError) and any(sign in message for sign in _OOM_SIGNS):
        return "oom"
    known = _gpu_error(error)
    return "unknown" if known is None else known.kind


def _gpu_error(error: BaseException) -> _GpuError | None:
    if not isinstance(error, RuntimeError):
        return None
    # Behind every error of CUDA torch says how assertions are looked for, whatever it was.
    said = _first_words(error)
    return next((known for known in _GPU_ERRORS if any(sign in said for sign in known.signs)), None)


def _sentence(error: BaseException) -> str:
    text = str(error) if isinstance(error, MissionError) else raised_by(error)
    if (known := _gpu_error(error)) is not None:
        # The line that raised it is one that asked later: kernels are not waited for.
        text = f"{_first_words(error)}; {known.advice}"
    elif isinstance(error, RuntimeError) and str(error).startswith("CUDA error: "):
        text = f"{type(error).__name__}: {_first_words(error)}"
    # Who holds the memory is said before; behind it torch tells how it divides its own.
    text = text.partition(" Of the allocated memory ")[0]
    return " ".join(text.split())[:_CAUSE_LIMIT]


def _first_words(error: BaseException) -> str:
    """What happened, without torch's words on how to look for it."""
    first = str(error).strip().partition("\n")[0]
    return first.partition(". Please ")[0]


def is_library(file: str) -> bool:
    """Whether `file` is of the standard library or of an installed package: also of another environment, whose packages
    this one may see (`make run SYSTEM=1`).
    """
    return file.startswith(_STANDARD_LIBRARY) or any(folder in file for folder in _INSTALLED)
