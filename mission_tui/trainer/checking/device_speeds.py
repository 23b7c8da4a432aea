"""``python -m mission_tui.trainer.checking.device_speeds``: is this spec's net faster on the CPU or on the GPU? The
spec comes as JSON on stdin, the answer as JSON lines; where nothing could be measured they say why.

Asked by a supervisor, and by a trainer. The line behind the spec names the runs root that keeps the answer, and of a
trainer the spaces of its environments; then comes the pickled shape of its net, so that no further one is made.

What another process is just measuring for that runs root is waited for before anything large is loaded.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mission_tui.fleet.specs.spec import Spec
from mission_tui.records.tuning_files import keep_speeds, kept_speeds, measured_of, measuring_alone
from mission_tui.trainer.checking.preflight import import_all
from mission_tui.trainer.named_parts import make_env
from mission_tui.trainer.process import Say, answer, asked_spec, cap_threads

if TYPE_CHECKING:
    from mission_tui.fleet.tuning.record import DeviceSpeeds
    from mission_tui.trainer.building.device_speeds import NetShape

WAIT_S = 30.0
"""For another process that measures the same net; after that both do."""
_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Answer for the spec on stdin; returns the exit code."""
    # Stuck in a driver, or in what it imports, it must not outlive a trainer that was killed.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return answer(_measure)


def _measure(say: Say) -> None:
    asked, _, rest = sys.stdin.buffer.read().partition(b"\n")
    keeping, _, pickled = rest.partition(b"\n")
    spec, where = asked_spec(asked), msgspec.json.decode(keeping, type=dict[str, bytes])
    if "root" not in where:
        _measured(spec, pickled, say)
        return
    root, of = Path(os.fsdecode(where["root"])), measured_of(spec, sys.executable, os.environ)
    with measuring_alone(root, of, WAIT_S):
        if (kept := kept_speeds(root, of, where.get("spaces", b"").decode())) is not None:
            say({"speeds": msgspec.to_builtins(kept), "kept": True})
        elif (measured := _measured(spec, pickled, say)) is not None:
            keep_speeds(root, of, *measured)


def _measured(spec: Spec, pickled: bytes, say: Say) -> tuple[str, DeviceSpeeds] | None:
    """The spaces and the speeds, which were said; None where it was said why there are none."""
    import_all(spec, say)
    cap_threads(spec.run.threads or 1)
    import torch

    if not torch.cuda.is_available():
        say({"why": "torch sees no CUDA device"})
        return None
    from mission_tui.trainer.building.device_speeds import shape_in
    from mission_tui.trainer.building.model import compare_devices, ppo_arguments
    from mission_tui.trainer.torch_compiler import use_plain_optimizers

    # As in a trainer: otherwise the first optimizer imports what takes as long as torch.
    use_plain_optimizers()
    gpu = spec.run.device if spec.run.device.startswith("cuda") else "cuda"
    shape = shape_in(pickled) or _shape_of(spec)
    say({"doing": "measuring the net on the CPU and on the GPU"})
    try:
        speeds = compare_devices(spec, shape, ppo_arguments(spec), gpu)
    except RuntimeError as error:
        say({"why": f"the GPU cannot compute: {' '.join(str(error).split())}"})
        return None
    say({"speeds": msgspec.to_builtins(speeds)})
    return shape.spaces, speeds


def _shape_of(spec: Spec) -> NetShape:
    from mission_tui.trainer.building.device_speeds import NetShape
    from mission_tui.trainer.vec_env.build import spaces_alone

    env = make_env(spec.env, None, around=lambda made: made)
    try:
        vec = spaces_alone(spec, env.observation_space, env.action_space)
    finally:
        env.close()
    return NetShape(vec.observation_space, vec.action_space, spec.env.n_envs)


if __name__ == "__main__":
    sys.exit(main())
