"""The environments that somebody else than the training plays in: those of a run, with what differs written over it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import structs

from mission_tui.errors import PresetError, nearest
from mission_tui.fleet.specs.spec import EnvSpec, Spec
from mission_tui.trainer.vec_env import in_this_process

__all__ = ["playing_spec"]


def playing_spec(spec: Spec, own: Mapping[str, Any], key: str) -> Spec:
    """`spec` with the keys `own` of its `env` replaced, on one lane unless they say how many, in this process.

    Raises `PresetError` naming `key` for keys that `[env]` does not have or take.
    """
    for name in own:
        if name not in EnvSpec.__struct_fields__:
            raise PresetError(f"unknown key {key}.{name[:60]}{nearest(name, EnvSpec.__struct_fields__)}")
    written = msgspec.to_builtins(spec.env) | {"n_workers": None} | dict(own)
    try:
        env = msgspec.convert(written, EnvSpec)
    except msgspec.ValidationError as error:
        raise PresetError(f"{key} does not fit [env]: {error}") from error
    lanes = env.n_envs if "n_envs" in own else 1
    run = structs.replace(spec.run, callbacks=())
    return in_this_process(structs.replace(spec, env=env, run=run), lanes, lanes)
