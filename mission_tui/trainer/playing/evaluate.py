"""``python -m mission_tui.trainer.playing.evaluate RUN_DIR --checkpoint NAME --episodes N --seed S --out FILE``.

Plays episodes under the rules that the run was trained on, read from its snapshot, with the normaliser's statistics
frozen. Progress as JSON lines on stdout, the result as the last one and in FILE. With ``--serve`` checkpoints and files
come as JSON lines on stdin, one after the other, until it is closed: importing torch takes longer than most play.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch as th
from msgspec import structs
from stable_baselines3.common.vec_env import VecEnv, unwrap_vec_normalize

from mission_tui.errors import CheckpointError, DamagedError, UsageError
from mission_tui.fleet.events.metrics import spoken
from mission_tui.fleet.specs.spec import EnvSpec, Spec
from mission_tui.plain_files import read_plain
from mission_tui.records.atomic import write_atomic_group
from mission_tui.records.given_files import LARGEST_BYTES
from mission_tui.records.jsonl import LINE_BYTES
from mission_tui.records.runs.attempt import attempt_spec_file, read_sealed_spec
from mission_tui.records.runs.checkpoint import Manifest
from mission_tui.records.runs.code_files import check_rules, rules_of
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.building.model import build_player
from mission_tui.trainer.learner import Learner
from mission_tui.trainer.named_parts import mission_rules
from mission_tui.trainer.process import Say, answer, cap_threads, lower_priority
from mission_tui.trainer.spaces import short
from mission_tui.trainer.state.boundary import freeze_normalizer, put_learned
from mission_tui.trainer.state.checkpoint import RULES, Loaded, load_checkpoint
from mission_tui.trainer.torch_compiler import use_plain_optimizers
from mission_tui.trainer.vec_env import build_vec_env, in_this_process
from mission_tui.trainer.vec_env.build import MaskedVecEnv
from mission_tui.trainer.vec_env.episodes import Act, PlayedEpisodes, mean_of, play, play_side_by_side, summary

_NATIVE_LANES, _INLINE_LANES = 64, 8
_SEEDS_APART = 1000
"""More than there are lanes, each of which is seeded on its own."""

_PROGRESS_EVERY_S = 0.25


def main(arguments: list[str] | None = None) -> int:
    """Evaluate; returns the exit code."""
    parsed = _parse(arguments)
    lower_priority(own_session=False)
    cap_threads(1)
    use_plain_optimizers()
    return answer(lambda say: (_serve if parsed.serve else _evaluate)(parsed, say))


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mission_tui.trainer.playing.evaluate", description="Play a policy.")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--checkpoint")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--reel", action="store_true")
    parser.add_argument("--stochastic", action="store_true")
    parser.add_argument("--policy", choices=("trained", "random"), default="trained")
    parser.add_argument("--out", type=Path)
    parsed = parser.parse_args(arguments)
    if not parsed.serve and (parsed.checkpoint is None or parsed.out is None):
        parser.error("--checkpoint and --out are needed without --serve")
    return parsed


class _Request(msgspec.Struct, frozen=True):
    """A checkpoint to play. `put_off_from` are the timesteps at which that was due, if it was put off."""

    checkpoint: str
    out: str
    put_off_from: int | None = None


def _serve(parsed: argparse.Namespace, say: Say) -> None:
    """Play what is asked for. What cannot be played ends the process; the supervisor starts another."""
    parsed.cpu_before_s = 0.0
    for line in sys.stdin.buffer:
        request = msgspec.json.decode(line, type=_Request)
        parsed.checkpoint, parsed.out, parsed.request = request.checkpoint, Path(request.out), request
        _evaluate(parsed, say)


def _evaluate(parsed: argparse.Namespace, say: Say) -> None:
    if min(parsed.episodes, parsed.seeds) < 1:
        raise UsageError(f"--episodes {parsed.episodes} and --seeds {parsed.seeds} must be at least 1")
    if parsed.reel and (parsed.seeds > 1 or parsed.stochastic or parsed.policy == "random"):
        raise UsageError("--reel names episodes that play alike again: leave out --seeds, --stochastic and --random")
    begun_s = time.monotonic()
    run_dir = RunDir(parsed.run_dir.resolve())
    folder = run_dir.checkpoints / parsed.checkpoint
    loaded, trained, rules = subject(run_dir, parsed.checkpoint)
    figures, by_seed = _figures(parsed, loaded, trained, rules, say)
    result = {
        "run": run_dir.id,
        "checkpoint": loaded.manifest.name,
        **figures,
        "deterministic": not parsed.stochastic,
        "seed": parsed.seed,
        "by_seed": by_seed,
        "policy": parsed.policy,
        "seconds": time.monotonic() - begun_s,
        "checkpoint_sha256": hashlib.sha256(read_plain(folder / "manifest.json", LINE_BYTES)).hexdigest(),
        "t": time.time(),
    }
    if parsed.serve:
        spent_s = sum(os.times()[:4])  # of this process, and of children that it has waited for
        result["cpu_s"], parsed.cpu_before_s = spent_s - parsed.cpu_before_s, spent_s
        result |= {} if parsed.request.put_off_from is None else {"put_off_from": parsed.request.put_off_from}
    document = msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n"
    write_atomic_group(parsed.out.parent, {parsed.out.name: document})
    say({"result": result})


def _figures(
    parsed: argparse.Namespace, loaded: Loaded, trained: Spec, rules: Path, say: Say
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the episodes came to: over all of them, and seed by seed."""
    if parsed.reel:
        # As a player has it (`watch`): what is said of an episode is seen when its seed is played there.
        spec = structs.replace(trained, env=structs.replace(trained.env, vec="inline", n_envs=1, n_workers=None))
    else:
        lanes = (min(parsed.episodes, most) for most in (_NATIVE_LANES, _INLINE_LANES))
        spec = in_this_process(trained, *lanes)
    winning = _winning(spec.env, rules)
    vec = build_vec_env(spec, rules).vec
    try:
        seeds = [parsed.seed + _SEEDS_APART * number for number in range(parsed.seeds)]
        at_once = parsed.episodes
        if parsed.reel:
            seeds, at_once = [(parsed.seed + number) % 2**32 for number in range(parsed.episodes)], 1
        progress = _Progress(say, at_once * len(seeds))
        played = []
        act, seen = actor(parsed, spec, vec, loaded)
        for seed in seeds:
            played.append(play(act, seen, at_once, seed, progress))
            progress.before += at_once
        figures = summary(play_side_by_side(played), winning)
        if parsed.reel:
            by_seed = [{"seed": parsed.seed, "mean": figures["mean"]}]
            figures["reel"] = reel_of(dict(zip(seeds, played, strict=True)))
        else:
            by_seed = [{"seed": seed, "mean": mean_of(each)} for seed, each in zip(seeds, played, strict=True)]
    finally:
        vec.close()
    return figures, by_seed


def reel_of(played: Mapping[int, PlayedEpisodes]) -> dict[str, dict[str, Any]]:
    """The best, the median and the worst of single episodes, which are known by the seed that plays each again."""
    ranked = sorted(played, key=lambda seed: (played[seed].returns[0], -seed))
    chosen = {"best": ranked[-1], "median": ranked[(len(ranked) - 1) // 2], "worst": ranked[0]}
    return {
        name: {
            "seed": seed,
            "return": spoken(played[seed].returns[0]),
            "steps": played[seed].lengths[0],
            "outcome": next(iter(played[seed].outcomes), None),
        }
        for name, seed in chosen.items()
    }


def subject(run_dir: RunDir, checkpoint: str) -> tuple[Loaded, Spec, Path]:
    """The verified checkpoint, the spec it was trained by, and the folder of its rules as they were then.

    Raises `DamagedError` when one of them is not what it was.
    """
    loaded = load_checkpoint(run_dir.checkpoints / checkpoint)
    manifest = loaded.manifest
    _check_spec(manifest, attempt_spec_file(run_dir, manifest.attempt))
    trained = read_sealed_spec(run_dir, manifest.attempt, os.environ)
    rules = rules_of(run_dir, manifest.attempt)
    check_rules(rules, manifest.extra.get(RULES))
    if _winning(trained.env, rules) is not None and not (rules / "rules.toml").is_file():
        raise DamagedError(f"{rules / 'rules.toml'} is gone, and today's rules may differ: nothing was played")
    return loaded, trained, rules


def actor(parsed: argparse.Namespace, spec: Spec, vec: VecEnv, loaded: Loaded) -> tuple[Act, VecEnv]:
    """How actions are chosen, and `vec` as the policy sees it. `parsed` has `policy`, `seed` and `stochastic`.

    Raises `CheckpointError` where the checkpoint is not of this environment.
    """
    if parsed.policy == "random":
        vec.action_space.seed(parsed.seed)
        return _by_chance(vec, masked=spec.ppo.algo == "maskable_ppo"), vec
    model = trained_model(spec, vec, loaded)
    assert model.env is not None
    th.manual_seed(parsed.seed)
    return model.player(model.env, deterministic=not parsed.stochastic), model.env


def trained_model(spec: Spec, vec: VecEnv, loaded: Loaded) -> Learner:
    """The policy of the checkpoint, on the CPU, around `vec`, whose normaliser has its statistics and keeps them.

    Raises `CheckpointError` where the checkpoint is not of this environment.
    """
    _check_normalizer(loaded, vec)
    if (normalizer := unwrap_vec_normalize(vec)) is not None:
        freeze_normalizer(normalizer, loaded.boundary.state["normalizer"])
    model = build_player(spec, vec)
    assert model.env is not None
    _check_spaces(loaded, model.env)
    put_learned(model, loaded.boundary.parameters)
    return model


def _by_chance(vec: VecEnv, *, masked: bool) -> Act:
    """Any action, of those that are allowed if the run's environments say which are."""
    if not masked:
        return lambda _observations, _starts: np.stack([vec.action_space.sample() for _ in range(vec.num_envs)])
    asked = MaskedVecEnv(vec)
    return lambda _observations, _starts: asked.sample(asked.masks())


def _winning(env: EnvSpec, snapshot: Path) -> Collection[str] | None:
    """The outcomes that count as won under the run's own rules; None where the environment has no such rules."""
    rules = mission_rules(env, snapshot)
    return None if rules is None else rules.winning


class _Progress:
    """Says how many episodes are done, a few times a second."""

    def __init__(self, say: Say, total: int) -> None:
        self._say, self._total, self._next_s = say, total, 0.0
        self.before = 0
        """Episodes of the seeds that are done."""

    def __call__(self, done: int) -> None:
        now_s, done = time.monotonic(), self.before + done
        if now_s >= self._next_s or done == self._total:
            self._next_s = now_s + _PROGRESS_EVERY_S
            self._say({"done": done, "total": self._total})


def _check_spec(manifest: Manifest, file: Path) -> None:
    """Raise `DamagedError` where `file` is not the spec that the attempt of `manifest` trained by.

    What was imported was never trained by a file here.
    """
    if manifest.reason == "imported":
        return
    try:
        found = hashlib.sha256(read_plain(file, LARGEST_BYTES)).hexdigest()
    except OSError as error:
        raise DamagedError(
            f"{file} cannot be read: {error.strerror}; it holds the settings that the run was trained with"
        ) from error
    if found != manifest.spec_sha256:
        raise DamagedError(
            f"{file} is not what checkpoint {manifest.name} was trained by any more; put it back as it was (SHA-256 "
            f"{manifest.spec_sha256[:12]}...): nothing is played with other settings"
        )


def _check_spaces(loaded: Loaded, vec: VecEnv) -> None:
    """`vec` is the environment as the policy sees it. Raises `CheckpointError` that names the space that is another."""
    manifest = loaded.manifest
    spaces = (("observations", "obs", vec.observation_space), ("actions", "act", vec.action_space))
    for what, key, space in spaces:
        then = manifest.extra.get(key)
        if isinstance(then, str) and then != short(space):
            raise CheckpointError(
                f"{what} are {short(space)} now and were {then} when checkpoint {manifest.name} was saved: "
                "the environment is another one, and a score in it would say nothing"
            )


def _check_normalizer(loaded: Loaded, vec: VecEnv) -> None:
    """Raise `CheckpointError` where one of the two has a normaliser and the other has none."""
    statistics, normalizes = loaded.boundary.state["normalizer"], unwrap_vec_normalize(vec) is not None
    if (statistics is not None) != normalizes:
        had, has = ("had", "has none") if statistics is not None else ("had no", "has one")
        raise CheckpointError(
            f"checkpoint {loaded.manifest.name} {had} normaliser and env.normalize of its run {has}: its policy would "
            "see other inputs than it learned from"
        )


if __name__ == "__main__":
    sys.exit(main())
