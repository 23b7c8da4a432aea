"""Reading a Stable-Baselines3 zip that somebody else may have made: tensors and numbers come out, nothing else.

Nothing in the file is run: of its pickles only tensors are taken, by torch's restricted loader, and the serialized
objects in its `data` stay text. Every size is checked before anything is read. Before that the process gives up memory,
time and new processes: that bounds what a broken or hostile file can cost. It is no sandbox: code that ran here would
still run as you.
"""

from __future__ import annotations

import io
import pickle
import resource
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch as th

from mission_tui.errors import CheckpointError
from mission_tui.fleet.specs.sb3_algorithms import GradientSpec, OtherAlgorithm
from mission_tui.records.sb3_run.zip_file import (
    DATA_BYTES,
    OPTIMIZERS,
    activation_of,
    algorithm_in,
    checked_members,
    opened_zip,
    read_data,
)
from mission_tui.trainer.state.model_state import Tensors

_POLICY, _OPTIMIZER = "policy.pth", "policy.optimizer.pth"
_VARIABLES = "pytorch_variables.pth"
_LEARNED_BESIDES = "log_ent_coef"
"""The only variable beside the policy that one of the algorithms here learns."""
_MOMENTS = frozenset({"step", "exp_avg", "exp_avg_sq"})
_OF_RMSPROP = (frozenset({"step", "square_avg"}), frozenset({"square_avg"}))
_COUNT_LIMIT = 10**15
CPU_S = 120
SPARE_BYTES = 1 << 30
PER_BYTE = 8
"""Of a file: its bytes, the tensors in them, the model's own and their copies, and the checkpoint being written."""


@dataclass(frozen=True, slots=True)
class ForeignModel:
    """What was in the zip: named weights, each optimizer's moments (by the name of its member, then by the position of
    their parameter), and plain settings. `besides` is what another algorithm than PPO learns outside of the policy,
    `activation` the class between the layers of PPO's, None where that is not known.
    """

    parameters: Tensors
    moments: Mapping[str, Mapping[int, Tensors]]
    timesteps: int
    gradient_epochs: int
    settings: Mapping[str, bool | int | float | str]
    besides: Tensors = field(default_factory=dict)
    algorithm: OtherAlgorithm | None = None
    activation: str | None = None


def read_foreign(path: Path) -> ForeignModel:
    """The model in the zip at `path`. Raises `CheckpointError` naming what does not belong into an SB3 zip."""
    with opened_zip(path) as archive:
        data = read_data(archive, path.name)
        if (other := algorithm_in(data)) is not None:
            return _of_other(other, archive, data, path.name)
        if _OPTIMIZER not in archive.namelist():
            raise CheckpointError(f"{path.name} has no {_OPTIMIZER}: it is not what `PPO.save` writes")
        parameters = _loaded(archive.read(_POLICY), f"{path.name}: {_POLICY}")
        optimizer = _loaded(archive.read(_OPTIMIZER), f"{path.name}: {_OPTIMIZER}")
    return ForeignModel(
        parameters=_tensors(parameters, f"{path.name}: {_POLICY}"),
        moments={_OPTIMIZER: _moments(optimizer, f"{path.name}: {_OPTIMIZER}")},
        timesteps=_count(data, "num_timesteps", path.name),
        gradient_epochs=_count(data, "_n_updates", path.name),
        settings={name: value for name, value in data.items() if isinstance(value, bool | int | float | str)},
        activation=activation_of(data),
    )


def _of_other(other: OtherAlgorithm, archive: zipfile.ZipFile, data: Mapping[str, Any], where: str) -> ForeignModel:
    """The same of another algorithm, which has optimizers of its own."""
    moments = {
        name: _moments(_loaded(archive.read(name), f"{where}: {name}"), f"{where}: {name}", rmsprop=other.name == "a2c")
        for name in OPTIMIZERS
        if name in archive.namelist()
    }
    if not moments and issubclass(other.table, GradientSpec):
        raise CheckpointError(f"{where} has no moments: it is not what `{other.called}.save` writes")
    besides: Tensors = {}
    if _VARIABLES in archive.namelist() and other.off_policy and "ent_coef_optimizer.pth" in moments:
        variables = _loaded(archive.read(_VARIABLES), f"{where}: {_VARIABLES}")
        kept = variables.get(_LEARNED_BESIDES) if isinstance(variables, dict) else None
        # It is a parameter of its own in some versions; its numbers count.
        besides[_LEARNED_BESIDES] = _plain(getattr(kept, "data", kept), f"{where}: {_LEARNED_BESIDES}")
    return ForeignModel(
        parameters=_tensors(_loaded(archive.read(_POLICY), f"{where}: {_POLICY}"), f"{where}: {_POLICY}", whole=True),
        moments=moments,
        timesteps=_count(data, "num_timesteps", where),
        gradient_epochs=_count(data, "_n_updates", where),
        settings={name: value for name, value in data.items() if isinstance(value, bool | int | float | str)},
        besides=besides,
        algorithm=other,
    )


def _count(data: Mapping[str, Any], name: str, where: str) -> int:
    value = data.get(name)
    if type(value) is not int or not 0 <= value <= _COUNT_LIMIT:
        raise CheckpointError(f"{where}: data has no usable {name}")
    return value


def _loaded(raw: bytes, where: str) -> object:
    """What torch's restricted loader makes of a `.pth`, after its own zip was looked at like the outer one."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = checked_members(archive.infolist(), len(raw), where)
    structure = [member for member in members if member.filename.endswith("/data.pkl")]
    # With a constants.pkl torch would take it for a program.
    program = any(member.filename.endswith("constants.pkl") for member in members)
    if len(structure) != 1 or structure[0].file_size > DATA_BYTES or program:
        raise CheckpointError(f"{where} is not a file of tensors as torch saves them")
    try:
        return th.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, AttributeError, KeyError, TypeError, AssertionError) as error:
        said = str(error).strip().splitlines()
        first = said[0][:120] if said else type(error).__name__
        raise CheckpointError(f"{where} holds something other than tensors; nothing of it was run: {first}") from error


def _tensors(loaded: object, where: str, *, whole: bool = False) -> Tensors:
    """With `whole` numbers too, which layers of batch normalisation count in."""
    if not isinstance(loaded, dict) or not all(isinstance(name, str) for name in loaded):
        raise CheckpointError(f"{where} is not a dictionary of named tensors")
    counts = {
        name: tensor
        for name, tensor in loaded.items()
        if whole and type(tensor) is th.Tensor and tensor.dtype == th.int64 and tensor.numel() == 1
    }
    return {
        name: counts[name] if name in counts else _plain(tensor, f"{where}: {name[:60]}")
        for name, tensor in loaded.items()
    }


def _moments(loaded: object, where: str, *, rmsprop: bool = False) -> dict[int, Tensors]:
    state = loaded.get("state") if isinstance(loaded, dict) else None
    if not isinstance(state, dict):
        raise CheckpointError(f"{where} is not the state of an optimizer")
    moments: dict[int, Tensors] = {}
    for index, kept in state.items():
        known = isinstance(kept, dict) and (kept.keys() == _MOMENTS or (rmsprop and kept.keys() in _OF_RMSPROP))
        if type(index) is not int or not known:
            raise CheckpointError(f"{where} is not the state of Adam, which is what PPO trains with")
        moments[index] = {
            name: (_steps if name == "step" else _plain)(value, f"{where}: {index}/{name}")
            for name, value in kept.items()
        }
    return moments


def _steps(value: object, where: str) -> th.Tensor:
    """Adam's count of its steps: a number up to torch 1.11, as most published agents have it, since then a tensor."""
    if isinstance(value, th.Tensor) and value.numel() == 1 and value.device.type == "cpu":
        # Of one number some versions made a list of one, and some an integer.
        whole = value.dtype in (th.int64, th.int32) and value.layout == th.strided
        return (value.to(th.float32) if whole else _plain(value, where)).reshape(())
    if type(value) is not int:
        return _plain(value, where)
    if not 0 <= value <= _COUNT_LIMIT:
        raise CheckpointError(f"{where} is no count of steps")
    return th.tensor(float(value), dtype=th.float32)


def _plain(tensor: object, where: str) -> th.Tensor:
    """`tensor` if it is plain numbers. A view may claim any shape: nothing is copied before shapes are compared."""
    plain = (
        type(tensor) is th.Tensor
        and tensor.layout == th.strided
        and tensor.is_floating_point()
        and tensor.device.type == "cpu"
    )
    if not plain or not isinstance(tensor, th.Tensor):
        raise CheckpointError(f"{where} is not a plain tensor of floating-point numbers")
    return tensor


def confine(file: Path, folder: Path, records_bytes: int = 0) -> None:
    """Limit this process for the rest of its life to what reading `file` and writing `folder` from it needs, and a file
    of `records_bytes` besides.

    Only limits of the kernel, so nothing in the file can undo them: address space, processor time, size of files made,
    and no further process. Raises `CheckpointError` when the kernel refuses one of them.
    """
    size = file.stat().st_size if file.is_file() else 0
    mapped = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    room = min(max(2 * size, records_bytes) + (64 << 20), max(0, shutil.disk_usage(folder.parent).free))
    used = resource.getrusage(resource.RUSAGE_SELF)
    _lower(resource.RLIMIT_AS, mapped + SPARE_BYTES + PER_BYTE * size)
    _lower(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + CPU_S)
    _lower(resource.RLIMIT_FSIZE, room)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NPROC, 0)


def _lower(what: int, limit: int) -> None:
    bound = min([limit, *(own for own in resource.getrlimit(what) if own != resource.RLIM_INFINITY)])
    try:
        resource.setrlimit(what, (bound, bound))
    except (ValueError, OSError, OverflowError) as error:
        raise CheckpointError(f"this process cannot be confined; the file was not opened: {error}") from error
