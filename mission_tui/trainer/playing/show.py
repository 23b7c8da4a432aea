"""``python -m mission_tui.trainer.playing.show RUN_DIR --checkpoint NAME``: one episode as text pictures, JSON lines.

It is played as an evaluation is: by the run's snapshot, with its statistics frozen. Pictures come at a pace that a
person can follow, and nothing is recorded.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import structs
from stable_baselines3.common.vec_env import VecEnv

from mission_tui.errors import PresetError, raised_by
from mission_tui.fleet.specs.spec import EnvSpec, Spec
from mission_tui.fleet.views.episode_picture import Canvas
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.failures import EnvError
from mission_tui.trainer.json_lines import Say, answer
from mission_tui.trainer.playing.evaluate import actor, subject
from mission_tui.trainer.playing.half_blocks import half_blocks
from mission_tui.trainer.process import cap_threads, lower_priority
from mission_tui.trainer.torch_compiler import disable_compiler
from mission_tui.trainer.vec_env import build_vec_env
from mission_tui.trainer.vec_env.env_maker import EnvMaker
from mission_tui.trainer.vec_env.episodes import outcome_of

__all__ = ["main"]

_MODES = ("ansi", "rgb_array")
"""What can be drawn in a terminal, the better one first."""


def main(arguments: list[str] | None = None) -> int:
    """Show; returns the exit code."""
    parser = argparse.ArgumentParser(prog="mission_tui.trainer.playing.show", description="Show an episode.")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--seed", type=int, default=10_000)
    parser.add_argument("--stochastic", action="store_true")
    parser.add_argument("--policy", choices=("trained", "random"), default="trained")
    parser.add_argument("--canvas", default="{}")
    parsed = parser.parse_args(arguments)
    lower_priority(own_session=False)
    cap_threads(1)
    disable_compiler()
    return answer(lambda say: _show(parsed, say))


def _show(parsed: argparse.Namespace, say: Say) -> None:
    canvas = msgspec.json.decode(parsed.canvas, type=Canvas)
    run_dir = RunDir(parsed.run_dir.resolve())
    loaded, trained, rules = subject(run_dir, parsed.checkpoint)
    spec = _drawing(trained, rules)
    vec = build_vec_env(spec, rules).vec
    try:
        act, seen = actor(parsed, spec, vec, loaded)
        seen.seed(parsed.seed)
        observations, starts, steps = seen.reset(), np.ones(1, dtype=bool), 0
        drawn_s = time.monotonic()
        while True:
            say({"frame": _picture(vec, canvas), "step": steps})
            drawn_s = _wait_until(drawn_s + 1.0 / canvas.fps)
            observations, _, starts, infos = seen.step(act(observations, starts))
            steps += 1
            if "episode" in infos[0]:
                break
    finally:
        vec.close()
    last = infos[0]
    result = {"run": run_dir.id, "checkpoint": loaded.manifest.name, "mode": spec.env.kwargs["render_mode"]}
    result |= {"return": float(last["episode"]["r"]), "steps": int(last["episode"]["l"]), "outcome": outcome_of(last)}
    say({"result": result | {"seed": parsed.seed}})


def _drawing(trained: Spec, rules: Path) -> Spec:
    """`trained` on one environment in this process that draws. Raises `PresetError` for one that cannot."""
    env = structs.replace(trained.env, vec="inline", n_envs=1, n_workers=None)
    modes = _modes(env, rules)
    mode = next((mode for mode in _MODES if mode in modes), None)
    if mode is None:
        raise PresetError(
            f"'{env.id}' draws neither text (ansi) nor frames (rgb_array): its render modes are "
            f"{', '.join(modes) or 'none'}"
        )
    return structs.replace(trained, env=structs.replace(env, kwargs={**env.kwargs, "render_mode": mode}))


def _modes(env: EnvSpec, rules: Path) -> list[str]:
    made = EnvMaker(env, rules)()
    try:
        said = made.metadata.get("render_modes", ())
    finally:
        made.close()
    return [str(mode)[:40] for mode in said] if isinstance(said, list | tuple | set | frozenset) else []


def _picture(vec: VecEnv, canvas: Canvas) -> str:
    """What the environment shows now. Raises `EnvError` when it cannot."""
    try:
        drawn: Any = vec.env_method("render")[0]
        if isinstance(drawn, list):
            drawn = drawn[-1]
        if isinstance(drawn, str):
            return drawn
        frame = np.asarray(drawn)
    except Exception as error:  # foreign code
        raise EnvError(f"the environment could not draw itself: {raised_by(error)}") from error
    if frame.ndim != 3 or frame.shape[2] < 3 or frame.dtype != np.uint8:
        raise EnvError(f"the environment drew a {type(drawn).__name__} where a frame of pixels or a text belongs")
    return half_blocks(frame[:, :, :3], canvas)


def _wait_until(due_s: float) -> float:
    """Pictures that took longer than their turn are not caught up with."""
    now_s = time.monotonic()
    time.sleep(max(0.0, due_s - now_s))
    return max(due_s, now_s)


if __name__ == "__main__":
    sys.exit(main())
