"""What a spec may say about whose program and Python runs, beyond what each field may be alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mission_tui.fleet.specs.place import plain_key
from mission_tui.fleet.specs.secrecy import is_secret
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec

__all__ = ["TRAINERS_OWN", "complaints"]

TRAINERS_OWN = ("duration_s", "device", "auto_scale", "engine", "precision", "compile", "tf32", "callbacks")
"""Fields of `run` that only the built-in trainer obeys."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OURS = "MISSION_TUI_"
_DEFAULT = RunSpec()


def complaints(spec: Spec) -> Iterator[tuple[tuple[str, ...], str]]:
    """Keys that contradict each other, and a sentence with what is valid instead."""
    yield from _environment(spec.run)
    if spec.run.command is not None:
        yield from _command(spec)
    elif spec.run.resume_command is not None:
        said = "run.resume_command goes on with what run.command began, which is missing; give both, or neither"
        yield ("run.resume_command", "run.command"), said
    elif spec.run.follow is not None:
        said = "run.follow reads the logs of a run.command, which is missing; the trainer writes its own rows"
        yield ("run.follow", "run.command"), said


def _command(spec: Spec) -> Iterator[tuple[tuple[str, ...], str]]:
    for key in ("command", "resume_command"):
        words = getattr(spec.run, key)
        if words is not None and (not words or not words[0] or any("\0" in word for word in words)):
            yield (f"run.{key}",), f"run.{key} must begin with a program, such as ['python', 'train.py']"
    for table, default in (("env", EnvSpec()), ("ppo", PpoSpec())):
        fields = getattr(spec, table)
        written = [name for name in fields.__struct_fields__ if getattr(fields, name) != getattr(default, name)]
        if written:
            key = f"{table}.{written[0]}"
            yield (key, "run.command"), f"{key} means nothing to run.command; put it among the command's own words"
    for name in TRAINERS_OWN:
        if getattr(spec.run, name) != getattr(_DEFAULT, name):
            near = "; `timeout 60 CMD` ends one after 60 s" if name == "duration_s" else ""
            yield (f"run.{name}", "run.command"), f"run.{name} is the trainer's and means nothing to run.command{near}"


def _environment(run: RunSpec) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, value in run.env.items():
        if not _NAME.fullmatch(name) or name.startswith(_OURS) or "\0" in value:
            yield ("run.env",), f"run.env.{plain_key(name)} is no variable that a run can be given; use another name"
        elif is_secret(name, value):
            yield (
                ("run.env",),
                (
                    f"run.env.{plain_key(name)} looks like a secret, and run.env is on record in spec.toml; "
                    "put it into a file and name that with run.env_file, or export it"
                ),
            )
