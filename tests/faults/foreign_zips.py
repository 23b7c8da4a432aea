"""Stock SB3 zips, and what somebody may have made of one: each way is named, and a canary shows whether code ran."""

from __future__ import annotations

import io
import json
import os
import stat
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import stable_baselines3
import torch as th

__all__ = ["HOSTILE", "Members", "Payload", "members", "stock_model", "written"]

Members = dict[str, bytes]


@cache
def stock_model(net: int = 8) -> stable_baselines3.PPO:
    """A trained stock PPO that fits the tiny spec of the trainer tests."""
    model = stable_baselines3.PPO(
        "MlpPolicy",
        "CartPole-v1",
        n_steps=32,
        batch_size=32,
        n_epochs=2,
        policy_kwargs={"net_arch": [net]},
        seed=1,
        device="cpu",
    )
    return model.learn(64)


def members() -> Members:
    """What `PPO.save` writes."""
    file = io.BytesIO()
    stock_model().save(file)
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(path: Path, content: Members, change: Callable[[zipfile.ZipFile], None] = lambda _: None) -> Path:
    """A zip of `content`; `change` may spoil it before its directory is written."""
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as archive:
        warnings.simplefilter("ignore", UserWarning)  # a name twice
        for name, raw in content.items():
            archive.writestr(name, raw)
        change(archive)
    return path


class Payload:
    """Unpickled, it makes the folder `canary`."""

    def __init__(self, canary: Path) -> None:
        self._canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._canary),)


def _saved(value: Any) -> bytes:
    file = io.BytesIO()
    th.save(value, file)
    return file.getvalue()


def _weights() -> dict[str, th.Tensor]:
    return dict(stock_model().policy.state_dict())


def _with(**changed: bytes) -> Members:
    names = {"policy": "policy.pth", "optimizer": "policy.optimizer.pth", "data": "data"}
    return members() | {names[key]: raw for key, raw in changed.items()}


def _repacked(raw: bytes, method: int, extra: Members) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(file, "w", method) as new:
        for name, part in {**{name: old.read(name) for name in old.namelist()}, **extra}.items():
            new.writestr(name, part)
    return file.getvalue()


def _link(archive: zipfile.ZipFile) -> None:
    info = zipfile.ZipInfo("system_info.txt")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    archive.writestr(info, "/etc/passwd")


def _boast(archive: zipfile.ZipFile) -> None:
    archive.filelist[0].file_size = archive.filelist[0].compress_size = 1 << 40


def _hidden_bomb(archive: zipfile.ZipFile) -> None:
    archive.writestr("system_info.txt", bytes(64 << 20), zipfile.ZIP_DEFLATED)


def _no_zip(path: Path) -> Path:
    path.write_bytes(b"PK nothing")
    return path


def _extra(name: str) -> Callable[[zipfile.ZipFile], None]:
    return lambda archive: archive.writestr(name, b"x")


def _without(name: str) -> Members:
    return {key: raw for key, raw in members().items() if key != name}


HOSTILE: dict[str, Callable[[Path, Path], Path]] = {
    "payload in the weights": lambda path, canary: written(path, _with(policy=_saved({"w": Payload(canary)}))),
    "payload in the optimizer": lambda path, canary: written(path, _with(optimizer=_saved([Payload(canary)]))),
    "an extra pth": lambda path, _: written(path, members() | {"critic.pth": _saved({})}),
    "a way out": lambda path, _: written(path, members(), _extra("../../escaped")),
    "a link": lambda path, _: written(path, _without("system_info.txt"), _link),
    "one name twice": lambda path, _: written(path, members(), _extra("policy.pth")),
    "a compressed member": lambda path, _: written(path, _without("system_info.txt"), _hidden_bomb),
    "a size that is a lie": lambda path, _: written(path, members(), _boast),
    "compressed tensors": lambda path, _: written(
        path, _with(policy=_repacked(members()["policy.pth"], zipfile.ZIP_DEFLATED, {"archive/data/0": bytes(1 << 26)}))
    ),
    "a program for tensors": lambda path, _: written(
        path, _with(policy=_repacked(members()["policy.pth"], zipfile.ZIP_STORED, {"archive/constants.pkl": b"."}))
    ),
    "a bare pickle": lambda path, _: written(path, _with(policy=b"\x80\x04N.")),
    "brackets without end": lambda path, _: written(path, _with(data=b"[" * 200_000)),
    "counters that are none": lambda path, _: written(path, _with(data=json.dumps({"num_timesteps": -1}).encode())),
    "not a zip": lambda path, _: _no_zip(path),
    "whole numbers": lambda path, _: written(
        path, _with(policy=_saved({name: tensor.long() for name, tensor in _weights().items()}))
    ),
}
"""By what is wrong: a function of the zip's path and the canary that makes it."""
