"""What a benchmark found: rows of the table of goals, each beside the peer that was measured in the same run.

A benchmark writes its rows to one JSON file; `python -m benchmarks.report` makes `docs/performance.md` of all of them,
and keeps them in `docs/performance.json`. Nothing here judges except by a row's own goal.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = [
    "MEASURED",
    "Row",
    "Sheet",
    "Spread",
    "asked_as",
    "busy_elsewhere",
    "digest",
    "facts_of_the_card",
    "facts_of_the_machine",
    "keep_sheets",
    "kept_sheets",
    "read_sheets",
    "speaks_of_this_code",
    "write_sheet",
]

SCHEMA = 3
CONFIDENCE = 0.93
ROOT = Path(__file__).resolve().parents[1]
_TRAINER = ("mission_tui/trainer/ppo", "mission_tui/trainer/native", "mission_tui/trainer/vec_env")
_ENVS = ("mission_tui/envs", "mission_tui/trainer/vec_env")
_SUPERVISOR = ("mission_tui/supervisor", "mission_tui/ipc", "mission_tui/fleet/views")
MEASURED: dict[str, tuple[str, ...]] = {
    "ppo": _TRAINER,
    "precision": _TRAINER,
    "round_parts": (*_TRAINER, "mission_tui/envs"),
    "mission": (*_TRAINER, "mission_tui/envs"),
    "stepping": _ENVS,
    "screen": ("mission_tui/tui",),
    "startup": ("mission_tui/cli", "mission_tui/trainer/__main__.py"),
    "cold_start": ("mission_tui/preloader", "mission_tui/keeper", "mission_tui/supervisor/launchers", *_TRAINER),
    "supervisor": (*_SUPERVISOR, "mission_tui/fleet/health"),
    "sampling": ("mission_tui/supervisor/gpu", "mission_tui/supervisor/watching"),
    "cpu_shares": ("mission_tui/supervisor/watching", "mission_tui/supervisor/host"),
    "joining": ("mission_tui/fleet/marginal_gain.py",),
    "judging": ("mission_tui/fleet/health",),
    "scaling": _SUPERVISOR,
    "clusters": (*_SUPERVISOR, "mission_tui/fleet/store.py", "mission_tui/tui"),
    "fleet.heavy": _TRAINER,
    "fleet.beast": _TRAINER,
    "fleet.overhead": ("mission_tui/trainer", "mission_tui/keeper"),
    "reporting": ("mission_tui/hook.py", "mission_tui/report.py"),
    "verdicts": ("mission_tui/fleet/timed_runs.py",),
    "learning": _TRAINER,
    "modes": (*_TRAINER, "mission_tui/fleet/timed_runs.py"),
}
"""What each benchmark of a speed measures: when that has changed, its sheet is older than the code it speaks of."""
BEGUN_S = time.monotonic()
PACKAGES = ("torch", "stable-baselines3", "gymnasium", "numpy", "textual")


def facts_of_the_machine(also: Sequence[str] = ()) -> dict[str, str]:
    """What the figures depend on: cores, memory, system and versions, of the packages `also` too."""
    versions = {name: _version(name) for name in (*PACKAGES, *also)}
    return {
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "python": sys.version.split()[0],
        **versions,
    }


def facts_of_the_card(device: str) -> dict[str, str]:
    """What card `device` is, and what drives it; nothing of a CPU."""
    if not device.startswith("cuda"):
        return {}
    import torch
    from torch.version import cuda

    from mission_tui.gpu_driver import loaded_module

    if not torch.cuda.is_available():
        return {}
    name, driver = torch.cuda.get_device_name(device), loaded_module()
    return {"GPU": name, **({"driver": driver} if driver else {}), "CUDA": str(cuda)}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def asked_as(module: str) -> str:
    """The command that this process was started with, for a sheet; the place of its `--json` says nothing."""
    words = sys.argv[1:]
    if "--json" in words:
        at = words.index("--json")
        words = words[:at] + words[at + 2 :]
    return shlex.join(["python", "-m", module, *words])


def busy_elsewhere(watch_s: float = 1.0) -> float:
    """How many cores others keep busy while this process does nothing for `watch_s` seconds."""
    before = _busy_ticks()
    time.sleep(watch_s)
    return (_busy_ticks() - before) / os.sysconf("SC_CLK_TCK") / watch_s


def _busy_ticks() -> int:
    user, nice, system, _idle, _iowait, irq, softirq, steal = (
        int(word) for word in Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:9]
    )
    return user + nice + system + irq + softirq + steal


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "-"


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of several measurements, with the least and the most of them.

    `rounds` is how many there were, 0 where an older sheet does not say; `least` and `most` bound the median of all
    rounds that there could have been, with a confidence of 93 % or more from five rounds on.
    """

    median: float
    low: float
    high: float
    rounds: int = 0
    least: float | None = None
    most: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of `values`, of which there is at least one."""
        ordered, outside = sorted(values), _outside(len(values))
        return cls(
            statistics.median(values), ordered[0], ordered[-1], len(values), ordered[outside], ordered[-1 - outside]
        )


def _outside(rounds: int) -> int:
    """How many of the smallest, and of the largest, lie outside an interval that holds the median at 93 %: by signs."""
    below, outside = 0.0, 0
    while outside < rounds // 2:
        below += math.comb(rounds, outside) / 2**rounds
        if 1 - 2 * below < CONFIDENCE:
            break
        outside += 1
    return max(0, outside - 1)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `what` was measured in `unit`, `peer` beside it in the same run.

    `ratio` is ours over the peer's, round by round, where more is better; of a bare figure without a peer it is None.
    `goal` is in words; `met` is None where nothing was measured, and `note` then says why.
    """

    what: str
    unit: str
    ours: Spread | None
    goal: str
    met: bool | None
    against: str = ""
    peer: Spread | None = None
    ratio: Spread | None = None
    note: str = ""


def commit_here() -> str:
    """The commit that is checked out, with a `+` where files differ from it; empty outside of a repository."""
    words = ("git", "-C", str(ROOT), "describe", "--always", "--abbrev=10", "--dirty=+", "--exclude=*")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


@dataclass(frozen=True, slots=True)
class Sheet:
    """The rows of one benchmark, with how, when and where they were measured.

    `load` is the one-minute load when it ended, its own included; `elsewhere` the cores that others kept busy before it
    began, None where nobody looked; `took_s` how long the program ran; `commit` what was checked out, and `code` a
    digest of the files that were measured: both are empty in sheets from before they were kept.
    """

    title: str
    command: str
    rows: tuple[Row, ...]
    load: float = field(default_factory=lambda: os.getloadavg()[0])
    when: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    machine: dict[str, str] = field(default_factory=facts_of_the_machine)
    elsewhere: float | None = None
    took_s: float = field(default_factory=lambda: time.monotonic() - BEGUN_S)
    commit: str = field(default_factory=commit_here)
    code: str = ""


def digest(folders: Sequence[str]) -> str:
    """Of the sources in these folders, or files, of the checkout."""
    found = hashlib.sha256()
    for folder in folders:
        place = ROOT / folder
        files = (
            [place] if place.is_file() else sorted(each for each in place.rglob("*") if each.suffix in (".py", ".c"))
        )
        for each in files:
            found.update(str(each.relative_to(ROOT)).encode() + b"\0" + each.read_bytes())
    return found.hexdigest()[:16]


def speaks_of_this_code(name: str, sheet: Sheet) -> bool:
    """Whether `sheet` was made of the code that is here; True where nobody knows what a benchmark measures."""
    return name not in MEASURED or sheet.code == digest(MEASURED[name])


def write_sheet(sheet: Sheet, file: Path) -> None:
    """Write the sheet as JSON, making its folder, with a digest of what a benchmark of that name measures."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if not sheet.code and file.stem in MEASURED:
        sheet = replace(sheet, code=digest(MEASURED[file.stem]))
    file.write_text(json.dumps(asdict(sheet), indent=1) + "\n", encoding="utf-8")


def read_sheets(folder: Path) -> dict[str, Sheet]:
    """Every sheet of `folder` by the name of its file, without the suffix; none where there is no such folder."""
    return {file.stem: _sheet(json.loads(file.read_text(encoding="utf-8"))) for file in sorted(folder.glob("*.json"))}


def keep_sheets(sheets: Mapping[str, Sheet], file: Path) -> None:
    """Write all of `sheets` to one JSON file."""
    kept = {"schema": SCHEMA, "sheets": {name: asdict(sheet) for name, sheet in sheets.items()}}
    file.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def kept_sheets(file: Path) -> dict[str, Sheet]:
    """What `keep_sheets` wrote to `file`; none where there is no such file."""
    if not file.exists():
        return {}
    return {name: _sheet(read) for name, read in json.loads(file.read_text(encoding="utf-8"))["sheets"].items()}


def _sheet(read: dict[str, Any]) -> Sheet:
    return Sheet(**{"commit": "", **read, "rows": tuple(_row(row) for row in read["rows"])})


def _row(read: dict[str, Any]) -> Row:
    spreads = {name: read[name] and Spread(**read[name]) for name in ("ours", "peer", "ratio")}
    return Row(**{**read, **spreads})
