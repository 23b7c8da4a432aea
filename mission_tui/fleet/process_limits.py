"""What a process is given beside its variables: cores, niceness, `ulimit`s, umask.

Captured by the client that launches, written into `launch.json`, set by the keeper for the trainer alone.

A limit is a pair of soft and hard, in the kernel's unit; -1 is "unlimited". What is None, or has no entry, is left as
the keeper's own is.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

UNLIMITED = -1


class ProcessLimits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`cores` as the kernel lists them ("0-3,8"); `nice` -20 to 19; `scheduler` "other", "batch" or "idle".

    `rlimits` by the kernel's name in small letters ("nofile"): soft, hard.
    """

    cores: str | None = None
    nice: int | None = None
    scheduler: str | None = None
    umask: int | None = None
    oom_score_adj: int | None = None
    rlimits: dict[str, tuple[int, int]] = field(default_factory=dict)


def core_list(cores: set[int]) -> str:
    """Cores as the kernel writes them: {0, 1, 2, 8} is "0-2,8"."""
    parts: list[list[int]] = []
    for core in sorted(cores):
        if parts and core == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], core]
        else:
            parts.append([core])
    return ",".join("-".join(map(str, part)) for part in parts)


def cores_in(said: str) -> set[int]:
    """The reverse of `core_list`. Raises `ValueError` for anything else."""
    pairs = (part.partition("-") for part in said.split(","))
    return {core for first, _, last in pairs for core in range(int(first), int(last or first) + 1)}


def shortfalls(wanted: ProcessLimits, own: ProcessLimits) -> Iterator[tuple[str, str, str]]:
    """What a process with the limits `own` cannot give to a child that is to have `wanted`: name, wanted, given.

    Only what makes the child poorer counts: less than it asked for, or a lower place among those who want a core.
    """
    for name, (soft, _) in wanted.rlimits.items():
        _, most = own.rlimits.get(name, (UNLIMITED, UNLIMITED))
        if most != UNLIMITED and (soft == UNLIMITED or soft > most):
            yield name, _said(soft), _said(most)
    if wanted.nice is not None and own.nice is not None and wanted.nice < own.nice:
        yield "niceness", str(wanted.nice), str(own.nice)
    asked, has = wanted.oom_score_adj, own.oom_score_adj
    if asked is not None and has is not None and asked < has:
        yield "oom_score_adj", str(asked), str(has)


def _said(limit: int) -> str:
    return "unlimited" if limit == UNLIMITED else str(limit)
