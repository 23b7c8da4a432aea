"""One environment under the checkers of SB3 and Gymnasium; then the trainer's own attempt in a temporary run directory,
ended after its first update, and what it measured.
"""

from __future__ import annotations

import resource
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import gymnasium
import msgspec
import numpy as np
import torch as th
from gymnasium.utils.env_checker import check_env as check_for_gymnasium
from stable_baselines3.common.env_checker import check_env as check_for_sb3

from mission_tui.errors import MissionError, PresetError, raised_by
from mission_tui.fleet.capacity.demand import MIB
from mission_tui.fleet.events.metrics import MetricRecord, TrainingEnded, UpdateDone
from mission_tui.fleet.events.outcome import Phase
from mission_tui.fleet.specs.algorithm import replay_buffer_of
from mission_tui.fleet.specs.sb3_algorithms import ArsSpec, plays_episodes
from mission_tui.fleet.specs.sizes import replay_size
from mission_tui.fleet.specs.spec import Spec, other_settings, rollout_size
from mission_tui.ipc.replies import CheckFigures, Level
from mission_tui.ipc.telemetry_messages import Order, PhaseEntered, TelemetryMessage
from mission_tui.records.given_files import read_toml
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.attempt import write_spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.__main__ import train
from mission_tui.trainer.building.model import torch_on
from mission_tui.trainer.named_parts import make_env, native_refusal
from mission_tui.trainer.orders import Attempt, Link, Orders
from mission_tui.trainer.process import Say, children
from mission_tui.trainer.record import Record
from mission_tui.trainer.spaces import refusal_of, short
from mission_tui.trainer.state.checkpoint import load_checkpoint

if TYPE_CHECKING:
    from mission_tui.trainer.checking.smoke import Smoke


LONG_ENOUGH_S = 3.0
"""Updates that are over within this time are measured too: the first one warms up what it needs."""

STEPS: dict[Phase, tuple[str, str]] = {
    "starting": ("build", "building environments and policy"),
    "rollout": ("rollout", "collecting the first rollout"),
    "update": ("update", "computing the first update"),
    "ending": ("checkpoint", "saving a checkpoint"),
}
_SHOWN_NOTES = 3
_STEPS_SEEN = 50


def check_one(spec: Spec, say: Say) -> tuple[Level, str]:
    """What the checkers say of one environment. Raises `PresetError` where it, or its spaces, cannot be trained."""
    say({"doing": f"making an environment of env.id '{spec.env.id}'"})
    env = make_env(spec.env, None, around=lambda made: made)
    try:
        sentence = refusal_of(spec, env.observation_space, env.action_space)
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
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            check_for_sb3(env)
        except Exception as error:  # noqa: BLE001 - a checker raises what it finds, and so does a foreign environment
            return "failed", f"env.id '{env_id}' breaks the contract of SB3's check_env: {raised_by(error)}"
        try:
            check_for_gymnasium(env.unwrapped, skip_render_check=True, skip_close_check=True)
        except Exception as error:  # noqa: BLE001 - likewise, but SB3 trains with what only Gymnasium refuses
            caught.append(_warning(f"Gymnasium's check_env: {raised_by(error)}"))
        if not _varies(env):
            caught.insert(0, _warning(f"observations did not change in {_STEPS_SEEN} steps of random actions"))
    said = dict.fromkeys(" ".join(_plain(str(one.message)).split()) for one in caught)
    notes = list(said)[:_SHOWN_NOTES]
    if len(said) > len(notes):
        notes.append(f"{len(said) - len(notes)} more warnings")
    return ("note" if notes else "ok"), "; ".join((spaces, *notes))


def _varies(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether two observations of some steps with random actions differ; a policy learns nothing of what never does."""

    def flat(observation: Any) -> Any:
        return gymnasium.spaces.flatten(env.observation_space, observation)

    def differs(observation: Any) -> bool:
        return not np.array_equal(flat(observation), first)

    try:
        first = flat(env.reset()[0])
        for _ in range(_STEPS_SEEN):
            observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if differs(observation) or ((terminated or truncated) and differs(env.reset()[0])):
                return True
    except Exception:  # noqa: BLE001 - one that refuses some actions, as where they are masked, has shown nothing odd
        return True
    return False


def _warning(sentence: str) -> warnings.WarningMessage:
    return warnings.WarningMessage(UserWarning(sentence), UserWarning, "", 0)


def _plain(text: str) -> str:
    """Without the colours that Gymnasium puts around its words."""
    return text.replace("\x1b[33m", "").replace("\x1b[0m", "").removeprefix("WARN: ")


class SmokeAttempt:
    """One attempt whose phases are the steps of a smoke run."""

    def __init__(self, smoke: Smoke, spec: Spec) -> None:
        self._smoke, self._spec = smoke, spec
        self._run = RunDir(smoke.folder / "run")
        self._phase: Phase | None = None
        self._updates = 0
        self._begun_s = 0.0
        self._trainer_bytes = 0
        self._workers: tuple[int, ...] = ()

    def train(self) -> None:
        """Build, collect, update, save, read back; the figures come last. A failure is the step's that it happened in.

        An attempt's own rules hold: settings, seed, number of environments and minibatches are those of the spec.
        """
        self._run.path.mkdir()
        write_spec(self._run.spec, self._spec)
        attempt = Attempt(self._run, 1, None, self._smoke.root)
        with Record(self._run, 1, self._on_phase) as record:
            code = train(attempt, record, Orders(self._orders), Link(attempt, {}))
        rows, _ = read_all(self._run.metrics, MetricRecord)
        ended = next((row for row in reversed(rows) if isinstance(row, TrainingEnded)), None)
        if code != 0 or ended is None or ended.checkpoint is None:
            if self._updates > 0 and self._phase is not None:
                self._smoke.begin(*STEPS[self._phase])
            self._smoke.end("failed", "no end was recorded" if ended is None else ended.cause, code or 1)
            return
        try:
            manifest = load_checkpoint(self._run.checkpoints / ended.checkpoint).manifest
        except MissionError as error:
            self._smoke.end("failed", str(error), error.exit_code)
            return
        self._smoke.end("ok", f"{manifest.size_bytes:,} bytes, read back")
        figures = self._figures([row for row in rows if isinstance(row, UpdateDone)])
        self._smoke.say({"figures": msgspec.to_builtins(figures)})

    def _orders(self) -> Sequence[Order]:
        over = self._updates > 0 and time.monotonic() - self._begun_s >= LONG_ENOUGH_S
        return (Order("stop"),) if over else ()

    def _on_phase(self, message: TelemetryMessage) -> None:
        """A phase begins: the step of the one before is over, the first time round."""
        if not isinstance(message, PhaseEntered) or message.phase not in STEPS:
            return
        if message.phase == "rollout" and self._phase == "starting":
            self._begun_s = time.monotonic()
        if message.phase in ("rollout", "ending") and self._phase == "update":
            self._updates += 1
            self._sample_memory()
        first = self._updates == 0 or (self._updates == 1 and self._phase == "update")
        if self._phase is not None and first:
            self._smoke.end("ok", self._said(self._phase))
        if self._updates == 0 or message.phase == "ending":
            self._smoke.begin(*STEPS[message.phase])
        elif first:
            # What hangs from here on is not the first update, which is over.
            self._smoke.say({"doing": "training on, to measure its speed"})
        self._phase = message.phase

    def _said(self, phase: Phase) -> str:
        match phase:
            case "starting":
                return self._built()
            case "rollout":
                settings = other_settings(self._spec)
                least = "at least " if settings is not None and plays_episodes(settings) else ""
                return f"{least}{rollout_size(self._spec):,} transitions"
            case _ if (buffer := replay_buffer_of(self._spec)) and buffer.learning_starts >= rollout_size(self._spec):
                return f"no gradient step yet: it learns from step {buffer.learning_starts:,} on"
            case _ if isinstance(other_settings(self._spec), ArsSpec):
                return "returns and weights are finite"
            case _:
                return "loss and gradients are finite"

    def _built(self) -> str:
        said = read_toml(self._run.attempt(1).effective, MissionError)
        if self._spec.run.device == "auto":
            # It is chosen by what was built, so this is when it is known.
            self._smoke.tell("device", _chosen(said["run"]["device"], said["reasons"]["run.device"]))
        env, model, device = said["env"], said["model"], said["run"]["device"]
        count = env.get("n_workers")
        on = "with" if env["vec"] == "split" else "on"
        workers = f" {on} {count} worker{'s' if count > 1 else ''}" if count else ""
        replay, words = replay_size(self._spec), ""
        if replay is not None:
            kept = f", {replay.checkpoint_bytes / MIB:,.1f} in each checkpoint" if replay.kept else ", in no checkpoint"
            words = f"; replay buffer of {replay.full_bytes / MIB:,.1f} MiB once full{kept}"
        return (
            f"{env['n_envs']} x {env['id']}, {env['vec']}{workers}; {model['policy']} with "
            f"{model['parameters']:,} parameters on {device}{words}"
        )

    def _sample_memory(self) -> None:
        self._trainer_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        self._workers = tuple(_proportional_bytes(pid) for pid in children())

    def _figures(self, rows: Sequence[UpdateDone]) -> CheckFigures:
        replay = replay_size(self._spec)
        usual = rows[1:] or rows
        if replay is not None:
            # Before the first gradient step it only steps its environment, which says nothing of how long it takes.
            usual = [row for row in usual if "train/n_updates" in row.metrics]
        if not usual:
            return CheckFigures(updates=len(rows), memory_bytes=self._memory_bytes(), n_workers=len(self._workers))
        update_s = median(row.rollout_s + row.update_s for row in usual)
        # As they were: of whole episodes only the least is known beforehand.
        size = median(round(row.steps_per_s * (row.rollout_s + row.update_s)) for row in usual)
        run = self._spec.run
        whole_s = run.duration_s if run.total_timesteps is None else -(-run.total_timesteps // size) * update_s
        used_gpu = th.cuda.is_initialized()  # type: ignore[no-untyped-call]
        return CheckFigures(
            updates=len(rows),
            steps_per_s=size / update_s,
            update_s=update_s,
            hours=None if whole_s is None else whole_s / 3600.0,
            memory_bytes=self._memory_bytes(),
            worker_bytes=max(self._workers, default=None),
            n_workers=len(self._workers),
            vram_bytes=max(map(th.cuda.max_memory_reserved, range(th.cuda.device_count()))) if used_gpu else None,
        )

    def _memory_bytes(self) -> int:
        """A replay buffer counts as full, which it is not yet."""
        replay = replay_size(self._spec)
        return self._trainer_bytes + sum(self._workers) + (0 if replay is None else replay.full_bytes)


def _chosen(device: str, why: str) -> str:
    """Where the run computes and why; the seconds of a comparison stand in the line of its own."""
    reason = why.partition(" (")[0]
    return f"{device}: {reason}; {torch_on(device)}"


def _proportional_bytes(pid: int) -> int:
    """What a process holds, of what it shares its part; 0 where the kernel does not say."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    line = next((line for line in text.splitlines() if line.startswith("Pss:")), "Pss: 0 kB")
    return int(line.split()[1]) << 10
