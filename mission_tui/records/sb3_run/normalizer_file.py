"""The `vecnormalize.pkl` of a run, read without unpickling: what was normalised, and its running moments as bytes."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mission_tui.errors import CheckpointError
from mission_tui.records.sb3_run.pickle_reader import Made, Named, PickledError, read_pickled

MOST_BYTES = 64 << 20
_VEC_NORMALIZE = Named("stable_baselines3.common.vec_env.vec_normalize", "VecNormalize")
_MOMENTS = Named("stable_baselines3.common.running_mean_std", "RunningMeanStd")
_MODULES = ("numpy", "numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric", "numpy._core.numeric")
_DTYPES = frozenset(("f4", "f8"))
_OURS = {"norm_obs": "obs", "norm_reward": "reward", "clip_obs": "clip_obs", "clip_reward": "clip_reward"}
_CONVERT = (
    "in a Python that trusts it, `VecNormalize.load(...)` it, and save it again with the current Stable-Baselines3"
)


@dataclass(frozen=True, slots=True)
class Array:
    """Numbers of numpy's `dtype` in row order; `shape` () is a single one."""

    dtype: str
    shape: tuple[int, ...]
    raw: bytes


@dataclass(frozen=True, slots=True)
class Moments:
    """Running mean and variance over `count` samples."""

    mean: Array
    var: Array
    count: float


@dataclass(frozen=True, slots=True)
class Statistics:
    """Moments of returns, and of observations by key ("array" where they are no dictionary), and `env.normalize`."""

    obs: Mapping[str, Moments]
    ret: Moments
    normalize: Mapping[str, Any]


def read_statistics(path: Path) -> Statistics:
    """What `path` holds. Raises `CheckpointError` naming it, and how it can be converted."""
    try:
        state = _state(read_pickled(_bytes(path)), _VEC_NORMALIZE)
        kept = state.get("obs_rms")
        observations = kept if isinstance(kept, Mapping) else {} if kept is None else {"array": kept}
        return Statistics(
            obs={str(key): _moments(it) for key, it in observations.items()},
            ret=_moments(state.get("ret_rms")),
            normalize={ours: it for name, ours in _OURS.items() if (it := _plain(state.get(name))) is not None},
        )
    except PickledError as error:
        raise CheckpointError(
            f"{path}: its statistics cannot be read without unpickling, which is never done: {error}; {_CONVERT}"
        ) from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from None


def _bytes(path: Path) -> bytes:
    if path.stat().st_size > MOST_BYTES:
        raise PickledError(f"it is larger than {MOST_BYTES >> 20} MiB")
    return path.read_bytes()


def normalize_of(path: Path) -> dict[str, Any]:
    """`env.normalize` as the statistics in `path` were made. Raises `CheckpointError`."""
    return dict(read_statistics(path).normalize)


def _state(value: object, cls: Named) -> Mapping[Any, Any]:
    if not isinstance(value, Made) or value.what != cls or not isinstance(value.state, Mapping):
        what = value.what if isinstance(value, Made) else type(value).__name__
        raise PickledError(f"it holds {_said(what)} where a {cls.name} belongs")
    return value.state


def _moments(value: object) -> Moments:
    state = _state(value, _MOMENTS)
    mean, var, count = (_array(state.get(name)) for name in ("mean", "var", "count"))
    if mean.shape != var.shape or count.shape:
        raise PickledError("its means and variances differ in shape")
    number = state.get("count")
    return Moments(mean, var, _real(number) if isinstance(number, int | float) else _single(count))


def _array(value: object) -> Array:
    """An array, or a single number, in each of the ways numpy describes them in a pickle."""
    if isinstance(value, int | float):
        return Array("<f8", (), struct.pack("<d", _real(value)))
    if not isinstance(value, Made) or not isinstance(value.what, Named) or not isinstance(value.arguments, tuple):
        raise PickledError(f"it holds {_said(value)} where numbers belong")
    name, given = value.what.name, value.arguments
    if value.what.module not in _MODULES:
        raise PickledError(f"it holds {_said(value.what)} where numbers belong")
    match name, given, value.state:
        case "_reconstruct", _, (_, tuple() as shape, Made() as dtype, bool() as by_column, bytes() as raw):
            return _checked(dtype, shape, raw, by_column=by_column)
        case "scalar", (Made() as dtype, bytes() as raw), None:
            return _checked(dtype, (), raw, by_column=False)
        case "_frombuffer", (bytes() | bytearray() as raw, Made() as dtype, tuple() as shape, str() as order), None:
            return _checked(dtype, shape, bytes(raw), by_column=order == "F")
        case _:
            raise PickledError(f"it holds {_said(value.what)} where numbers belong")


def _checked(dtype: Made, shape: tuple[Any, ...], raw: bytes, *, by_column: bool) -> Array:
    kind = dtype.arguments[0] if isinstance(dtype.arguments, tuple) and dtype.arguments else None
    byte_order = dtype.state[1] if isinstance(dtype.state, tuple) and len(dtype.state) > 1 else "<"
    size = 1
    for length in shape:
        if type(length) is not int or length < 0:
            raise PickledError("an array of it has no shape")
        size *= length
    if (
        not isinstance(kind, str)
        or kind not in _DTYPES
        or byte_order not in ("<", "=", "|")
        or (by_column and len(shape) > 1)
    ):
        raise PickledError("an array of it is not of plain floating-point numbers")
    if len(raw) != size * int(kind[1]):
        raise PickledError("an array of it has another length than its shape says")
    return Array(f"<{kind}", shape, raw)


def _plain(value: object) -> float | None:
    """A truth or a number; None for anything else."""
    return value if isinstance(value, bool) else _real(value) if isinstance(value, int | float) else None


def _real(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        raise PickledError("a number of it is beyond all floating-point ones") from None


def _single(array: Array) -> float:
    number: float = struct.unpack("<d" if array.dtype == "<f8" else "<f", array.raw)[0]
    return number


def _said(value: object) -> str:
    return f"{value.module}.{value.name}"[:80] if isinstance(value, Named) else f"a {type(value).__name__}"
