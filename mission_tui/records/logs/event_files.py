"""TensorBoard event files as training logs: SB3's tags as they are, CleanRL's mapped to them.

Reading them needs the `tensorboard` extra, which is imported only when there is such a file.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from mission_tui.errors import install_words
from mission_tui.fleet.events.metrics import Episodes, mean_value
from mission_tui.plain_files import open_named
from mission_tui.records.logs.log import LogError, TableRow, TrainingLog, log_of_rows

STEPS = "time/total_timesteps"
FAMILIES = ("rollout/", "train/", "policy/", "eval/", "time/")
CLEANRL = {
    "losses/approx_kl": "train/approx_kl",
    "losses/clipfrac": "train/clip_fraction",
    "losses/explained_variance": "train/explained_variance",
    "losses/value_loss": "train/value_loss",
    "losses/policy_loss": "train/policy_gradient_loss",
    "charts/learning_rate": "train/learning_rate",
}
ENTROPY, RETURN, LENGTH = "losses/entropy", "charts/episodic_return", "charts/episodic_length"
EPISODES = 100
"""Episodes that `rollout/ep_rew_mean` is over, as in SB3; CleanRL writes each episode by itself."""

HYPERPARAMETERS = "hyperparameters/text_summary"
_OF_ANY = frozenset(("env_id", "total_timesteps", "gamma"))

_FRAME_BYTES = 16
"""Around each event: its length, and the checksums of that and of the event."""


class Step(Struct):
    """Everything that was written at one step; a tag that was written twice has two values. `clip_range` is what
    CleanRL's arguments in its file say.
    """

    step: int
    t: float
    values: dict[str, list[float]] = field(default_factory=dict)
    clip_range: float | None = None


def event_files(path: Path) -> list[Path]:
    """The event files that `path` means: itself, or those in it when it is a folder; none when it is something else."""
    found = path.iterdir() if path.is_dir() else (path,)
    return sorted(it for it in found if "tfevents" in it.name and it.is_file())


def read_events(path: Path, files: Iterable[Path], *, to_import: bool = False) -> TrainingLog:
    """The log that `files` of folder or file `path` hold, in the order of their names.

    Raises `LogError` without the extra, for files without a tag of SB3 or CleanRL, and where they are `to_import` as a
    run also for those of CleanRL's other algorithms: no run of ours is like them.
    """
    words: dict[str, str] = {}
    damage: list[str] = []
    log = log_of_rows(path, event_rows(path, files, words, damage, to_import=to_import), damage)
    return replace(log, settings=replace(log.settings, **_argument_settings(words)))


def event_rows(
    path: Path, files: Iterable[Path], words: dict[str, str], damage: list[str], *, to_import: bool = False
) -> Iterable[TableRow]:
    """The rows that `files` hold; what CleanRL says of its arguments is put into `words`. Raises `LogError` as
    `read_events` does.
    """
    steps: list[Step] = []
    for file in files:
        of_file = list(_steps(file, words, damage))
        for step in of_file:
            # Who follows the log takes only its rows: without it a KL would be measured against the default range.
            step.clip_range = _number(words, "clip_coef")
        steps += of_file
    tags = {tag for step in steps for tag in step.values}
    if not tags.isdisjoint(CLEANRL):
        return _cleanrl_rows(steps)
    if RETURN in tags:
        if to_import:
            raise LogError(f"{path}: is a log of CleanRL, and not of its PPO: it can be judged, and not imported")
        # Its DQN, SAC and TD3 call losses by their own names, and `batch_size` a minibatch.
        for name in words.keys() - _OF_ANY:
            del words[name]
        return _cleanrl_rows(steps)
    words.clear()
    if not any(tag.startswith(("rollout/", "train/")) for tag in tags):
        raise LogError(
            f"{path}: has none of the tags of SB3 (train/approx_kl, rollout/ep_rew_mean) or CleanRL (losses/approx_kl, "
            f"charts/episodic_return)"
        )
    return map(_row, steps)


def cleanrl_arguments(files: Iterable[Path]) -> dict[str, str]:
    """What CleanRL's script says of its arguments, before anything else, in the first of `files` that has it.

    Raises `LogError` as `read_events` does.
    """
    for file in files:
        words: dict[str, str] = {}
        next(_steps(file, words, []), None)
        if words:
            return words
    return {}


def _steps(path: Path, words: dict[str, str], damage: list[str]) -> Iterator[Step]:
    try:
        from tensorboard.backend.event_processing.event_file_loader import (
            RawEventFileLoader,
        )
        from tensorboard.compat.proto.event_pb2 import Event
    except ImportError:
        raise LogError(
            f"{path}: is a TensorBoard event file, which needs the `tensorboard` extra; {install_words('tensorboard')}"
        ) from None
    from google.protobuf.message import DecodeError

    step: Step | None = None
    read_bytes = 0
    try:
        # The loader would make room for whatever length an event says, and there are holes of any.
        os.close(open_named(path))
        size = path.stat().st_size
        for record in RawEventFileLoader(str(path)).Load():
            read_bytes += _FRAME_BYTES + len(record)
            event = Event.FromString(record)
            for value in event.summary.value:
                if value.tag == HYPERPARAMETERS:
                    words |= _table(value.tensor)
                elif (scalar := _scalar(value)) is not None:
                    if step is None or step.step != event.step:
                        if step is not None:
                            yield step
                        step = Step(event.step, event.wall_time)
                    step.t = event.wall_time
                    step.values.setdefault(value.tag, []).append(scalar)
    except (OSError, DecodeError) as error:
        raise LogError(f"{path}: cannot be read as an event file: {error}") from None
    except MemoryError:
        pass  # an event that says that it is longer than all memory: the loader asks for so much at once
    if step is not None:
        yield step
    # The loader stops at the first event that is not whole and says nothing: what comes after it would not be missed.
    if read_bytes < size:
        damage.append(
            f"{path.name}: its last {size - read_bytes:,} bytes were not read: an event there is damaged or cut short"
        )


def _scalar(value: Any) -> float | None:
    if value.WhichOneof("value") == "simple_value":
        # Single precision: 0.0003 would come back as 0.0003000000142492354.
        return float(f"{value.simple_value:.7g}")
    if value.WhichOneof("value") != "tensor" or value.tensor.tensor_shape.dim or value.tensor.string_val:
        return None
    from tensorboard.util.tensor_util import make_ndarray

    try:
        return float(make_ndarray(value.tensor))
    except (TypeError, ValueError, KeyError):
        return None  # a tensor of no numbers, of other ones than its shape says, or of a type without an array


def _row(step: Step) -> TableRow:
    cells = {tag: values[-1] for tag, values in step.values.items() if tag.startswith(FAMILIES)}
    return TableRow(cells | {STEPS: float(step.step)}, step.t)


def _cleanrl_rows(steps: Iterable[Step]) -> Iterator[TableRow]:
    """One row per update: the steps with losses, with the episodes that ended since the one before."""
    recent: deque[float] = deque(maxlen=EPISODES)
    lasted: deque[float] = deque(maxlen=EPISODES)
    returns: list[float] = []
    lengths: list[float] = []
    last = -1
    for step in steps:
        if step.step < last:
            # Another training in the same folder, whose episodes are none of the one before.
            recent.clear()
            lasted.clear()
            returns, lengths = [], []
        last = step.step
        returns += step.values.get(RETURN, ())
        lengths += step.values.get(LENGTH, ())
        cells = {ours: step.values[tag][-1] for tag, ours in CLEANRL.items() if tag in step.values}
        if not any(tag.startswith("losses/") for tag in step.values):
            continue
        if ENTROPY in step.values:
            cells["train/entropy_loss"] = -step.values[ENTROPY][-1]
        if step.clip_range is not None:
            cells["train/clip_range"] = step.clip_range
        recent.extend(returns)
        lasted.extend(lengths)
        if recent:
            cells["rollout/ep_rew_mean"] = mean_value(recent)
        if lasted:
            cells["rollout/ep_len_mean"] = mean_value(lasted)
        yield TableRow(cells | {STEPS: float(step.step)}, step.t, episodes=Episodes(n=len(returns)))
        returns, lengths = [], []


def _table(tensor: Any) -> dict[str, str]:
    """CleanRL's own table of its arguments, `|name|value|` a line."""
    text = tensor.string_val[0].decode("utf-8", errors="replace") if tensor.string_val else ""
    lines = [line.strip().strip("|").split("|", 1) for line in text.splitlines()]
    return {cells[0].strip(): cells[1].strip() for cells in lines if len(cells) == 2}


def total_timesteps(words: dict[str, str]) -> int | None:
    """How many steps the script was told to train for, by the `words` that `event_rows` found."""
    total = _number(words, "total_timesteps")
    return int(total) if total is not None and total >= 1.0 else None


def _argument_settings(words: dict[str, str]) -> dict[str, Any]:
    """What the arguments say of the settings, by the names of `Settings`."""
    numbers: dict[str, Any] = {
        ours: value
        for name, ours in (
            ("clip_coef", "clip_range"),
            ("target_kl", "target_kl"),
            ("ent_coef", "ent_coef"),
            ("vf_coef", "vf_coef"),
            ("gamma", "gamma"),
            ("max_grad_norm", "max_grad_norm"),
        )
        if (value := _number(words, name)) is not None
    }
    counts = {
        ours: int(value)
        for name, ours in (
            ("total_timesteps", "total_timesteps"),
            ("update_epochs", "n_epochs"),
            ("batch_size", "rollout"),
            ("minibatch_size", "batch_size"),
        )
        if (value := _number(words, name))
    }
    return numbers | counts | ({"env_id": words["env_id"]} if words.get("env_id") else {})


def _number(words: dict[str, str], name: str) -> float | None:
    try:
        value = float(words[name])
    except (KeyError, ValueError):
        return None
    return value if math.isfinite(value) else None
