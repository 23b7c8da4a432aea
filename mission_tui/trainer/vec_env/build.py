"""Building the vectorised environment of a run: the kind, the lanes, and the normaliser around them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from mission_tui.envs.recipe import EnvRecipe
from mission_tui.errors import PresetError
from mission_tui.fleet.spec import Normalize, Spec
from mission_tui.trainer.env_ids import env_kwargs, native_refusal
from mission_tui.trainer.vec_env.choosing import VecKind, choose_kind
from mission_tui.trainer.vec_env.inline import InlineVecEnv
from mission_tui.trainer.vec_env.making import EnvMaker, make_batched
from mission_tui.trainer.vec_env.native import NativeVecEnv
from mission_tui.trainer.vec_env.workers import WorkersVecEnv

__all__ = ["BuiltEnvs", "build_vec_env"]


@dataclass(frozen=True, slots=True)
class BuiltEnvs:
    """The environment of a run, which kind it is, and why."""

    vec: VecEnv
    kind: VecKind
    reason: str

    @property
    def worker_pids(self) -> tuple[int, ...]:
        base = self.vec.unwrapped
        return base.pids if isinstance(base, WorkersVecEnv) else ()


def build_vec_env(spec: Spec, snapshot: Path | None, kept_kind: VecKind | None = None) -> BuiltEnvs:
    """Build `spec.env`; with "auto", `kept_kind` is what an earlier attempt of the run resolved it to.

    Raises `PresetError` for what the preset has wrong, `EnvError` for an environment that fails.
    """
    kind, reason = _kind(spec, snapshot, kept_kind)
    maker = EnvMaker(spec.env, snapshot)
    vec: NativeVecEnv | InlineVecEnv | WorkersVecEnv
    if kind == "native":
        vec = NativeVecEnv(make_batched(spec.env, snapshot))
    elif kind == "inline":
        vec = InlineVecEnv([maker] * spec.env.n_envs)
    else:
        vec = _workers(spec, snapshot, maker)
        reason = f"{reason}; {len(vec.pids)} worker processes"
    return BuiltEnvs(_normalized(vec, spec), kind, reason)


def _workers(spec: Spec, snapshot: Path | None, maker: EnvMaker) -> WorkersVecEnv:
    # Made here once: what is wrong with a preset is said best by the process that knows presets.
    made = maker()
    spaces = made.observation_space, made.action_space
    made.close()
    recipe = EnvRecipe(spec.env.id, env_kwargs(spec.env, snapshot), spec.env.imports, spec.env.wrappers)
    try:
        # Nothing in a training reads the infos of steps that end no episode.
        return WorkersVecEnv(recipe, spec.env.n_envs, spaces, spec.env.n_workers, all_infos=False)
    except ValueError as error:
        raise PresetError(f"env.vec = 'workers': {error}; use env.vec = 'inline'") from error


def _kind(spec: Spec, snapshot: Path | None, kept_kind: VecKind | None) -> tuple[VecKind, str]:
    if spec.env.vec != "auto":
        return spec.env.vec, "as the preset says"
    if kept_kind is not None and (kept_kind != "native" or native_refusal(spec.env) is None):
        return kept_kind, "as in the attempt before"
    return choose_kind(spec.env, EnvMaker(spec.env, snapshot))


def _normalized(vec: VecEnv, spec: Spec) -> VecEnv:
    wanted = spec.env.normalize
    if wanted is False:
        return vec
    normalize = Normalize() if wanted is True else wanted
    try:
        return VecNormalize(
            vec,
            norm_obs=normalize.obs,
            norm_reward=normalize.reward,
            clip_obs=normalize.clip_obs,
            clip_reward=normalize.clip_reward,
            gamma=spec.ppo.gamma,
        )
    except ValueError as error:
        raise PresetError(f"env.normalize cannot be used here: {error}") from error
