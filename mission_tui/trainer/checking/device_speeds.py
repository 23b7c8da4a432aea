"""``python -m mission_tui.trainer.checking.device_speeds``: is this spec's net faster on the CPU or on the GPU? The
spec comes as JSON on stdin, the answer as JSON lines; no figures where torch has no GPU to compute on.
"""

from __future__ import annotations

import sys

import msgspec

from mission_tui.errors import PresetError
from mission_tui.trainer.checking.preflight import import_all
from mission_tui.trainer.named_parts import make_env
from mission_tui.trainer.process import Say, answer, asked_spec, cap_threads


def main() -> int:
    """Answer for the spec on stdin; returns the exit code."""
    return answer(_measure)


def _measure(say: Say) -> None:
    spec = asked_spec(sys.stdin.buffer.read())
    import_all(spec, say)
    cap_threads(spec.run.threads or 1)
    import torch

    if not torch.cuda.is_available():
        say({"why": "torch sees no CUDA device"})
        return
    from mission_tui.trainer.building.arguments import ppo_arguments
    from mission_tui.trainer.building.device_speeds import NetShape
    from mission_tui.trainer.building.model import compare_devices
    from mission_tui.trainer.vec_env.build import spaces_alone

    env = make_env(spec.env, None, around=lambda made: made)
    try:
        vec = spaces_alone(spec, env.observation_space, env.action_space)
    finally:
        env.close()
    shape = NetShape(vec.observation_space, vec.action_space, spec.env.n_envs)
    gpu = spec.run.device if spec.run.device.startswith("cuda") else "cuda"
    say({"doing": "measuring the net on the CPU and on the GPU"})
    try:
        speeds = compare_devices(spec, shape, ppo_arguments(spec), gpu)
    except RuntimeError as error:
        raise PresetError(f"run.device = '{gpu}': the GPU cannot compute: {' '.join(str(error).split())}") from error
    say({"speeds": msgspec.to_builtins(speeds)})


if __name__ == "__main__":
    sys.exit(main())
