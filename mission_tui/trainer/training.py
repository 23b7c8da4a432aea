"""One attempt from spec to last checkpoint: build envs, build what learns, learn, save."""

from __future__ import annotations

import secrets
import traceback
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch as th

from mission_tui.envs.masks import MASKS
from mission_tui.errors import MissionError, PresetError
from mission_tui.fleet.events.findings import CHECKPOINT, EVALUATION
from mission_tui.fleet.resume.verdict import Terms
from mission_tui.fleet.specs.algorithm import engine_of
from mission_tui.fleet.specs.sb3_algorithms import other_algorithm
from mission_tui.fleet.specs.spec import Spec
from mission_tui.records.atomic import StorageError, write_atomic, write_json
from mission_tui.trainer.building.device_speeds import NetShape
from mission_tui.trainer.building.effective import effective_toml, loaded_modules, machine_facts, versions
from mission_tui.trainer.building.model import build_learner, choose_device, learner_arguments, use_tf32
from mission_tui.trainer.callbacks import Callbacks, build_callbacks
from mission_tui.trainer.failures import Failure, complain
from mission_tui.trainer.learn import LiveSettings, Training
from mission_tui.trainer.learner import Learner
from mission_tui.trainer.named_parts import registration_of
from mission_tui.trainer.orders import Attempt, Link, Orders
from mission_tui.trainer.periodic_evaluation import Evaluating
from mission_tui.trainer.ppo import FastPPO
from mission_tui.trainer.record import EventFile, Record
from mission_tui.trainer.running_time import Budget
from mission_tui.trainer.spaces import masks_refusal, refusal_of
from mission_tui.trainer.state.boundary import Progress, restore_random_state
from mission_tui.trainer.state.checkpoint import Checkpoints, Loaded, load_checkpoint
from mission_tui.trainer.state.env_proof import unproven
from mission_tui.trainer.state.resume import Facts, facts_of, moved, probe, restore_training, take_weights
from mission_tui.trainer.vec_env import BuiltEnvs, build_vec_env

_PLAYING_SEED = 10_000
"""How far from the run's own the seeds of environments are that callbacks play in."""


@dataclass(slots=True)
class Job:
    """The work of one attempt; its parts are there as soon as they are built, so that a failure finds what to save."""

    attempt: Attempt
    spec: Spec
    record: Record
    orders: Orders
    link: Link
    envs: BuiltEnvs | None = None
    callbacks: Callbacks | None = None
    training: Training | None = None
    _proven: bool = True

    def train(self) -> Literal["finished", "stopped"]:
        """Build envs, build PPO, learn, save. Raises whatever went wrong; `close` is the caller's duty either way."""
        start = self._load()
        was: Facts = start.boundary.state["facts"] if start else {}
        self._try_state(start)
        self.envs = build_vec_env(self.spec, self.attempt.run_dir.snapshot, was.get("vec"), was.get("n_workers"))
        self.link.name_workers(self.envs.worker_pids, self.envs.worker_status)
        self._check_spaces(self.envs)
        model, facts, reasons = self._build(self.envs, was)
        terms = self.attempt.read_terms()
        if terms.weights_from:
            branched = load_checkpoint(self.attempt.run_dir.origin / terms.weights_from)
            reasons["model.parameters"] = take_weights(model, branched.boundary)
        self.training, exact = self._stand_at(start, model, facts, terms)
        self._write_effective(self.training, self.spec, reasons)
        self.training.live_settings.publish = partial(self._publish, reasons)
        lacking = self._write_loaded()
        snapshot = self.attempt.run_dir.snapshot
        registration, update = registration_of(self.spec.env, snapshot), self.training.progress.update
        resumed = probe(model, start.boundary, self.spec, snapshot, exact=exact) if start else None
        self.record.started(
            update,
            model.num_timesteps,
            self.attempt.checkpoint,
            exact,
            registration,
            resumed,
            vec=self.envs.kind,
            device=model.device.type,
            moved=moved(was, facts) if start else (),
        )
        if lacking:
            self._fail("record of what was loaded", lacking)
        return self.training.learn()

    def _try_state(self, start: Loaded | None) -> None:
        """Before anything of the training is made: whether environments can be put back into their episodes."""
        if start is None or not start.boundary.has_env_state:
            return
        was = start.boundary.state["facts"].get("vec")
        why = unproven(self.spec.env, self.attempt.run_dir.snapshot, batched=was == "native")
        if why:
            self._proven = False
            complain(f"the resume is continued, not exact: of env.id '{self.spec.env.id}' {why}; episodes begin anew")

    def _build(self, envs: BuiltEnvs, was: Facts) -> tuple[Learner, Facts, dict[str, str]]:
        """What learns on `envs`, the circumstances it will learn under, and the reasons for what was chosen here."""
        run, arguments = self.spec.run, learner_arguments(self.spec)
        device, why_device = choose_device(
            run.device, was.get("device"), self.spec, NetShape.of(envs.vec), self.attempt.root
        )
        why_tf32 = use_tf32(device, wanted=run.tf32)
        seed, why_seed = self._seed(was)
        run_dir = self.attempt.run_dir
        self.callbacks = build_callbacks(self.spec, run_dir.path, run_dir.snapshot, (seed + _PLAYING_SEED) % 2**31)
        model = build_learner(self.spec, arguments, envs.vec, seed, device)
        model.callbacks = self.callbacks
        if self.callbacks is not None:
            self.link.name_callbacks(self.callbacks.are_long)
        reasons = {
            "run.device": why_device,
            "run.seed": why_seed,
            "run.threads": _why_threads(self.spec),
            "run.tf32": why_tf32,
            "run.engine": _why_engine(self.spec),
            "run.compile": self._compile(model),
        }
        made_of, machine = versions(model.algo), machine_facts(device)
        return model, facts_of(self.spec, seed, envs, device, th.get_num_threads(), made_of, machine), reasons

    @property
    def cause(self) -> str:
        """Why it ended, where that is not what the preset or a person asked for."""
        if self.training is None:
            return ""
        if not self.training.ended_by and self.training.budget.at_limit(self.training.model.num_timesteps):
            return "reached the end of its trial"
        return self.training.ended_by or ""

    @property
    def unsaved(self) -> str:
        """Why the last boundary is in no checkpoint, where it is not."""
        return "" if self.training is None else self.training.unsaved

    @property
    def checkpoint(self) -> str | None:
        """The newest checkpoint of this attempt, or the one it started from."""
        return self.attempt.checkpoint if self.training is None else self.training.checkpoints.newest

    def save_after_failure(self, failure: Failure) -> str | None:
        """After `failure`: save the last boundary unless numbers went bad; returns the checkpoint to go on from."""
        if self.training is None or self.training.boundary is None or failure.kind == "nan":
            return self.checkpoint
        try:
            return self.training.save("end")
        except (MissionError, RuntimeError, MemoryError) as error:
            # RuntimeError: after a fault of the GPU its memory cannot be read any more.
            why = str(error) or type(error).__name__  # most have no memory to say more
            complain(f"the last checkpoint could not be saved: {why}")
            self.record.failed(CHECKPOINT, f"the last checkpoint could not be saved: {why}")
            training = self.training
            left = training.checkpoints.newest_in_words(training.progress.update)
            # Where that was tried before and ended the training, the cause says why.
            also = "" if why in failure.cause else f"its last checkpoint was not saved: {why}"
            training.unsaved = "; ".join(filter(None, (also, left)))
            return self.checkpoint

    def close(self) -> None:
        """Let go of what is held and end the environments; how the run ended is settled, whatever they say to that."""
        if self.training is not None:
            self.training.evaluating.close()
            self.training.checkpoints.close()
            self.training.events.close()
        for held in (self.callbacks, None if self.envs is None else self.envs.vec):
            try:
                if held is not None:
                    held.close()
            except Exception:  # noqa: BLE001 - an environment is foreign code and may raise anything
                traceback.print_exc()

    def _load(self) -> Loaded | None:
        name = self.attempt.checkpoint
        if name is None:
            return None
        loaded = load_checkpoint(self.attempt.run_dir.checkpoints / name)
        self.record.update, self.record.timesteps = loaded.boundary.update, loaded.boundary.timesteps
        return loaded

    def _check_spaces(self, envs: BuiltEnvs) -> None:
        sentence = refusal_of(self.spec, envs.vec.observation_space, envs.vec.action_space)
        if sentence is None:
            sentence = masks_refusal(self.spec.ppo, offered=envs.vec.has_attr(MASKS))
        if sentence is not None:
            raise PresetError(f"env.id '{self.spec.env.id}' cannot be trained: {sentence}")

    def _compile(self, model: Learner) -> str:
        if not isinstance(model, FastPPO) or not model.compiles:
            return "as the run's spec says"
        complain("compiling the policy before the first step: half a minute the first time, seconds later")
        return f"compiled in {model.warm_up(self.orders.stop_asked):.1f} s before the first step"

    def _seed(self, was: Facts) -> tuple[int, str]:
        """A seed is always known, so that every run can be repeated."""
        if self.spec.run.seed is not None:
            return self.spec.run.seed, "as the run's spec says"
        if "seed" in was:
            return was["seed"], "as in the attempt before"
        return secrets.randbelow(2**31), "drawn, because the preset gives none"

    def _stand_at(self, start: Loaded | None, model: Learner, facts: Facts, terms: Terms) -> tuple[Training, bool]:
        """The training at its first boundary, fresh or where `start` was taken, and whether it is exactly there."""
        attempt, run_dir = self.attempt, self.attempt.run_dir
        keep = self.spec.keep.checkpoint
        checkpoints = Checkpoints(run_dir, attempt.number, attempt.spec_file, keep, self.record)
        progress, exact = Progress(), False
        if start is not None:
            boundary = start.boundary
            progress = Progress.at(boundary)
            checkpoints.started_from(start)
            exact = restore_training(model, start.boundary, facts, attempt.number, terms, proven=self._proven)
        # Resets the environments, unless they were put back into the middle of their episodes.
        model._setup_learn(0, reset_num_timesteps=False)
        if start is not None and facts["seed"] == start.boundary.state["facts"]["seed"]:
            restore_random_state(model, start.boundary)
        training = Training(
            model=model,
            budget=Budget.of(self.spec.run, terms.until_timesteps),
            orders=self.orders,
            record=self.record,
            checkpoints=checkpoints,
            events=EventFile(
                # Who passes the run on writes all of them then.
                None if self.spec.run.track == "tensorboard" else run_dir.path,
                attempt.number,
                model.num_timesteps,
                partial(self._fail, "TensorBoard events"),
                partial(self._works_again, "TensorBoard events"),
            ),
            progress=progress,
            facts=facts,
            live_settings=LiveSettings(self.spec),
            evaluating=Evaluating(run_dir, self.spec.evaluate, model.num_timesteps, progress.trained_s),
            callbacks=self.callbacks,
            remembered=None if start is None else start.boundary.state.get("callbacks"),
        )
        training.evaluating.failed = partial(self._fail, EVALUATION)
        training.live_settings.failed = partial(self._fail, "set")
        return training, exact

    def _fail(self, duty: str, why: str) -> None:
        complain(why)
        self.record.failed(duty, why)

    def _works_again(self, duty: str, how: str) -> None:
        complain(how)
        self.record.works_again(duty, how)

    def _publish(self, reasons: dict[str, str], why: dict[str, str]) -> None:
        """Other settings are in effect: the file says which and why; a disk that refuses it ends no training."""
        assert self.training is not None
        try:
            reasons |= why
            self._write_effective(self.training, self.training.live_settings.spec, reasons)
        except StorageError as error:
            complain(f"effective.toml is out of date: {error}")
            self.record.failed("effective.toml", f"it is out of date: {error}")

    def _write_loaded(self) -> str:
        """Record which modules are loaded; why that was not possible, or nothing."""
        path = self.attempt.run_dir.attempt(self.attempt.number).loaded
        try:
            write_json(path, loaded_modules(self.spec), mode=0o600)
        except StorageError as error:
            return f"what was loaded is not recorded: {error}"
        return ""

    def _write_effective(self, training: Training, spec: Spec, reasons: dict[str, str]) -> None:
        assert self.envs is not None
        model = training.model
        progress = training.budget.progress_remaining(model.num_timesteps, training.progress.trained_s)
        text = effective_toml(spec, self.envs, model, progress, reasons)
        path = self.attempt.run_dir.attempt(self.attempt.number).effective
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text.encode())


def _why_engine(spec: Spec) -> str:
    if (other := other_algorithm(spec.run.algo)) is not None:
        return f"{other.called} is trained by {other.package}'s own operations; the fast engine knows PPO alone"
    if engine_of(spec) != spec.run.engine:
        return f"ppo.algo = '{spec.ppo.algo}' is trained by sb3-contrib's operations; the fast engine knows ppo alone"
    return "as the run's spec says"


def _why_threads(spec: Spec) -> str:
    if spec.run.threads is not None:
        return "as the preset says"
    return "one for each run: runs do not wait for each other, and a seed repeats its numbers"
