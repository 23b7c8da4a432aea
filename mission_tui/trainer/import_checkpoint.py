"""``python -m mission_tui.trainer.import_checkpoint FILE.zip FOLDER``: a `PPO.save` zip as our checkpoint.

The spec comes as JSON on stdin. What its preset asks for is built first; then the process takes every right away that
reading does not need, and only then is the foreign file opened. The model that was read becomes a boundary of ours
(its weights, moments and counters) and is written into FOLDER; the statistics that `export` puts beside a zip come
along, and are not unpickled either.

Somebody else may have made the zip, so nothing in it is run: of its pickles only tensors are taken, by torch's
restricted loader, and the serialized objects in its `data` stay text. Every size is checked before anything is read.
Before that the process gives up memory, time and new processes: that bounds what a broken or hostile file can cost. It
is no sandbox: code that ran here would still run as you.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import pickle
import resource
import shutil
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv, VecNormalize, unwrap_vec_normalize

from mission_tui.errors import CheckpointError
from mission_tui.fleet.specs.algorithm import learning_table, replay_buffer_of
from mission_tui.fleet.specs.sb3_algorithms import GradientSpec, OtherAlgorithm, other_algorithm
from mission_tui.fleet.specs.sizes import plan_batch
from mission_tui.fleet.specs.spec import Spec, rollout_size
from mission_tui.records.runs.checkpoint import CheckpointFacts, save_checkpoint
from mission_tui.records.sb3_run.normalizer_file import STATISTICS, Array, Moments, read_statistics
from mission_tui.records.sb3_run.zip_file import (
    ACTIVATION,
    DATA_BYTES,
    OPTIMIZERS,
    activation_of,
    algorithm_in,
    checked_members,
    opened_zip,
    read_data,
)
from mission_tui.trainer.building.effective import versions
from mission_tui.trainer.building.model import build_player
from mission_tui.trainer.learner import Learner
from mission_tui.trainer.process import Say, answer, asked_spec, cap_threads, lower_priority
from mission_tui.trainer.state.boundary import (
    Boundary,
    Progress,
    Tensors,
    capture,
    copy_learned,
    copy_moments,
    restore_normalizer,
)
from mission_tui.trainer.state.checkpoint import checkpoint_name, fill_checkpoint
from mission_tui.trainer.state.resume import facts_of
from mission_tui.trainer.torch_compiler import use_plain_optimizers
from mission_tui.trainer.tree import Tree
from mission_tui.trainer.vec_env import build_vec_env, in_this_process

_COMPARED = ("gamma", "gae_lambda", "ent_coef", "vf_coef", "max_grad_norm", "n_steps")


def model_for(spec: Spec, vec: VecEnv) -> Learner:
    """The model that a foreign one is put into, standing at the first observation of `vec`."""
    th.manual_seed(spec.run.seed or 0)
    model = build_player(spec, vec)
    assert model.env is not None
    model._last_obs = model.env.reset()  # type: ignore[assignment]
    model._last_episode_starts = np.ones(1, dtype=bool)
    return model


def foreign_boundary(model: Learner, foreign: ForeignModel, spec: Spec, update: int) -> Boundary:
    """The boundary after `update` updates that the foreign model stands at, with what `model`'s normaliser knows.

    Its environments are not in the file, so none are kept. Raises `CheckpointError` for another policy than `model`'s.
    """
    _check_algorithm(spec, foreign)
    # Its replay buffer is in no such file.
    model.keeps_replay = False
    _put(model, foreign)
    model.num_timesteps, model._n_updates = foreign.timesteps, foreign.gradient_epochs
    taken = capture(
        model, Progress(update=update), facts_of(spec, spec.run.seed or 0, None, None, 1, versions(model.algo), {})
    )
    return replace(taken, state={**taken.state, "envs": None})


def _check_algorithm(spec: Spec, foreign: ForeignModel) -> None:
    other = other_algorithm(spec.run.algo)
    if other != foreign.algorithm:
        there, here = (("PPO" if it is None else it.called) for it in (foreign.algorithm, other))
        near = "ppo" if foreign.algorithm is None else foreign.algorithm.name
        raise CheckpointError(
            f"the file holds a model of {there}, and the preset trains {here}: take one with algo = '{near}'"
        )


def _put(model: Learner, foreign: ForeignModel) -> None:
    """Weights and each optimizer's moments into `model`, every name and shape compared before anything is copied."""
    own = model.policy.state_dict(keep_vars=True) | model.learned_besides()
    there = foreign.parameters | foreign.besides
    if odd := own.keys() ^ there.keys():
        where = "the file" if min(odd) in own else "the preset's policy"
        raise CheckpointError(f"the file holds another policy than the preset asks for: {where} has no {min(odd)[:80]}")
    for name, tensor in own.items():
        _check_shape(name, there[name], tensor)
    owners: dict[str, Any] = {
        "policy.optimizer.pth": getattr(model.policy, "optimizer", None),
        "actor.optimizer.pth": getattr(getattr(model, "actor", None), "optimizer", None),
        "critic.optimizer.pth": getattr(getattr(model, "critic", None), "optimizer", None),
        "ent_coef_optimizer.pth": getattr(model, "ent_coef_optimizer", None),
    }
    for member, moments in foreign.moments.items():
        optimizer = owners[member]
        if not isinstance(optimizer, th.optim.Optimizer):
            raise CheckpointError(f"the file has {member}, and the preset's algorithm has no such optimizer")
        owned = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        if moments.keys() - range(len(owned)):
            raise CheckpointError(f"the file's {member} knows more parameters than the preset's policy has")
        for index, kept in moments.items():
            for name, moment in kept.items():
                _check_shape(f"{index}/{name}", moment, th.zeros(()) if name == "step" else owned[index])
    with th.no_grad():
        for name, tensor in own.items():
            tensor.copy_(there[name])
    for member, moments in foreign.moments.items():
        state = {index: {name: it.clone() for name, it in kept.items()} for index, kept in moments.items()}
        groups = owners[member].state_dict()["param_groups"]
        owners[member].load_state_dict({"state": state, "param_groups": groups})
    for kind in (copy_learned(model), copy_moments(model)):
        for name, tensor in kind.items():
            if tensor.is_floating_point() and not bool(th.isfinite(tensor).all()):
                raise CheckpointError(f"the file holds nan or infinite numbers in {name}; it was not imported")


def _check_shape(name: str, there: th.Tensor, here: th.Tensor) -> None:
    if there.shape != here.shape:
        shapes = f"{list(there.shape)} in the file and {list(here.shape)} in the preset's policy"
        raise CheckpointError(f"the file holds another policy than the preset asks for: {name[:80]} is {shapes}")


def save_foreign(checkpoints: Path, run: str, boundary: Boundary, spec: bytes, of: Spec) -> str:
    """Save `boundary` of run `run`, whose spec is `of`, and `spec` as it was asked for; the checkpoint's name."""
    facts = CheckpointFacts(
        run=run,
        attempt=1,
        update=boundary.update,
        timesteps=boundary.timesteps,
        t=time.time(),
        reason="imported",
        spec_sha256=hashlib.sha256(spec).hexdigest(),
        extra={"env_state": False, "lineage": [], **({"replay": False} if replay_buffer_of(of) is not None else {})},
    )
    name = checkpoint_name(boundary.timesteps)
    return save_checkpoint(checkpoints, name, lambda folder: fill_checkpoint(folder, boundary), facts).name


def put_statistics(normalizer: VecNormalize, path: Path) -> None:
    """Have `normalizer` know what the statistics in `path` say. Raises `CheckpointError` naming the file."""
    said = read_statistics(path)
    observations = {key: _moments(moments, path) for key, moments in said.obs.items()}
    try:
        restore_normalizer(normalizer, {"obs": observations, "ret": _moments(said.ret, path)}, lanes=False)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from None


def _moments(moments: Moments, path: Path) -> Tree:
    mean, var = _array(moments.mean), _array(moments.var)
    if not (np.isfinite(mean).all() and np.isfinite(var).all() and 0.0 < moments.count < np.inf):
        raise CheckpointError(f"{path}: its statistics hold nan or infinite numbers; nothing was taken over")
    if (var < 0.0).any():
        raise CheckpointError(f"{path}: its statistics hold a negative variance; nothing was taken over")
    return {"mean": mean, "var": var, "count": float(moments.count)}


def _array(array: Array) -> NDArray[np.float64]:
    return np.frombuffer(array.raw, dtype=array.dtype).reshape(array.shape).astype(np.float64)


@dataclass(frozen=True, slots=True)
class _ImportOrder:
    """What was asked for: the zip, the run's id, its rules, and the folder that checkpoints go into."""

    file: Path
    run: str
    snapshot: Path | None
    checkpoints: Path


def main(arguments: list[str] | None = None) -> int:
    """Import; returns the exit code."""
    parser = argparse.ArgumentParser(prog="mission_tui.trainer.import_checkpoint", description="Import an SB3 zip.")
    parser.add_argument("file", type=Path)
    parser.add_argument("checkpoints", type=Path)
    parser.add_argument("--run", required=True)
    parser.add_argument("--snapshot", type=Path)
    parsed = parser.parse_args(arguments)
    wanted = _ImportOrder(parsed.file, parsed.run, parsed.snapshot, parsed.checkpoints)
    lower_priority(own_session=False)
    cap_threads(1)
    use_plain_optimizers()
    return answer(lambda say: _import(wanted, say))


def _import(wanted: _ImportOrder, say: Say) -> None:
    raw = sys.stdin.buffer.read()
    spec = asked_spec(raw)
    vec = build_vec_env(in_this_process(spec), wanted.snapshot).vec
    try:
        model = model_for(spec, vec)
        confine(wanted.file, wanted.checkpoints)
        foreign = read_foreign(wanted.file)
        normalizer, beside = unwrap_vec_normalize(vec), wanted.file.with_suffix(STATISTICS)
        if normalizer is not None and beside.is_file():
            put_statistics(normalizer, beside)
        update = _updates(spec, foreign)
        name = save_foreign(wanted.checkpoints, wanted.run, foreign_boundary(model, foreign, spec, update), raw, spec)
    finally:
        with suppress(Exception):  # a confined environment may not be able to end in order, and nothing hangs on it
            vec.close()
    result = {"checkpoint": name, "update": update, "timesteps": foreign.timesteps}
    notes = [*_notes(spec, foreign), *_on_statistics(beside, normalized=normalizer is not None)]
    say({"result": result | {"notes": notes}})


def _updates(spec: Spec, foreign: ForeignModel) -> int:
    """How many of our updates it has done: of PPO by its epochs, of another algorithm by its steps."""
    if foreign.algorithm is not None:
        return foreign.timesteps // rollout_size(spec)
    return foreign.gradient_epochs // max(1, plan_batch(spec).n_epochs)


def _on_statistics(beside: Path, *, normalized: bool) -> Iterator[str]:
    """What became of the statistics `beside` the zip, where the policy may see other inputs than it learned from."""
    if normalized and not beside.is_file():
        yield f"the normalizer's statistics begin anew: there is no {beside.name} beside the file"
    if beside.is_file() and not normalized:
        yield (
            f"{beside.name} beside it is not used, and without it the policy sees other inputs: import it again "
            "with --set env.normalize=true"
        )


def _notes(spec: Spec, foreign: ForeignModel) -> list[str]:
    """What the preset says otherwise than the file, and what could not come along."""
    notes = []
    for name in _COMPARED:
        there, here = foreign.settings.get(name), getattr(learning_table(spec)[1], name, None)
        if isinstance(there, int | float) and isinstance(here, int | float) and there != here:
            notes.append(f"{name} was {there:g} in the file and is {here:g} in the preset")
    activation = str(spec.ppo.policy_kwargs.get("activation_fn", ACTIVATION)).replace(":", ".").rpartition(".")[2]
    if foreign.activation not in (None, activation):
        notes.append(
            f"activation_fn was {foreign.activation} in the file and is {activation} in the preset: its policy acts "
            f"otherwise than there; import it again with --set ppo.policy_kwargs.activation_fn={foreign.activation}"
        )
    total = spec.run.total_timesteps
    if total is not None and foreign.timesteps >= total:
        notes.append(f"it has {foreign.timesteps} of the preset's {total} steps: resume it with a larger total")
    return notes


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
        moments={_OPTIMIZER: _optimizer_moments(optimizer, f"{path.name}: {_OPTIMIZER}")},
        timesteps=_count(data, "num_timesteps", path.name),
        gradient_epochs=_count(data, "_n_updates", path.name),
        settings={name: value for name, value in data.items() if isinstance(value, bool | int | float | str)},
        activation=activation_of(data),
    )


def _of_other(other: OtherAlgorithm, archive: zipfile.ZipFile, data: Mapping[str, Any], where: str) -> ForeignModel:
    """The same of another algorithm, which has optimizers of its own."""
    moments = {
        name: _optimizer_moments(
            _loaded(archive.read(name), f"{where}: {name}"), f"{where}: {name}", rmsprop=other.name == "a2c"
        )
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


def _optimizer_moments(loaded: object, where: str, *, rmsprop: bool = False) -> dict[int, Tensors]:
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


if __name__ == "__main__":
    sys.exit(main())
