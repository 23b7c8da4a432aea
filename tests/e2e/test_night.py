"""A night: trainings go on while lines drop, the disk fills, the package changes and the machine restarts.

In the morning every number on the screen is what the files say. `make night` drops the line twenty times, other runs of
this test four times. The disk is filled only where a small one can be mounted.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from mission_tui.present import numbers
from tests.e2e.account import Account, accounts
from tests.e2e.terminal import Terminal
from tests.full_disk import fill
from tests.rebooting import forget_boot, power_cut, processes_of
from tests.shell import REPOSITORY, Shell, opened
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

DROPS = int(os.environ.get("MISSION_TUI_NIGHT", "4"))
GRACE_S = 10.0
STUB = """
description = "{name} of the night"
[env]
id = "CartPole-v1"
n_envs = 4
vec = "inline"
[ppo]
n_steps = 16
batch_size = 64
n_epochs = 2
[run]
total_timesteps = {total}
env = {{ STUB_UPDATE_S = "0.1"{more} }}
[keep]
on_reboot = "{on_reboot}"
restart = {{ most = {restarts}, wait_s = 1.0 }}
"""
REAL = """
description = "real PPO"
[env]
id = "CartPole-v1"
n_envs = 4
vec = "inline"
[ppo]
n_steps = 64
batch_size = 64
n_epochs = 2
[run]
total_timesteps = 50_000_000
[keep]
on_reboot = "resume"
checkpoint = { every_s = 2.0 }
"""
COUNTS = {
    "ended": r"(\d+) ended",
    "failed": r"(\d+) failed",
    "lost": r"(\d+) lost",
    "parked": r"(\d+) parked",
    "restarts": r"(\d+) restarts?\b",
    "reboots": r"(\d+) resumed after a reboot",
    "findings": r"(\d+) findings?\b",
}


def presets(folder: Path, updates: int) -> None:
    """One run of each kind; `short` finishes, `sick` is stopped for NaN and `broken` crashes after so many updates."""
    (folder / "real.toml").write_text(REAL)
    for name, total, on_reboot, restarts, more in (
        ("steady", 10**9, "resume", 0, ""),
        ("left", 10**9, "leave", 0, ""),
        ("flaky", 10**9, "resume", 99, ', STUB_CRASHES_AFTER = "60"'),
        ("short", 64 * updates, "leave", 0, ""),
        ("sick", 10**9, "leave", 0, f', STUB_NAN_FROM = "{updates - 20}"'),
        ("broken", 10**9, "leave", 0, f', STUB_CRASHES_AFTER = "{updates}"'),
    ):
        text = STUB.format(name=name, total=total, on_reboot=on_reboot, restarts=restarts, more=more)
        (folder / f"{name}.toml").write_text(text)


def install(site: Path, version: str) -> None:
    """The package as an upgrade leaves it: another folder under the same name, at once."""
    fresh = site / f"mission_tui-{version}"
    shutil.copytree(REPOSITORY / "mission_tui", fresh)
    (fresh / "presets").mkdir(exist_ok=True)
    opening = fresh / "__init__.py"
    opening.write_text(re.sub(r'__version__ = ".*"', f'__version__ = "{version}"', opening.read_text()))
    place = site / "mission_tui"
    if place.exists():
        place.rename(site / "mission_tui-old")
    fresh.rename(place)


@contextmanager
def disk(folder: Path) -> Iterator[bool]:
    """`folder` on a small file system of its own where that may be; whether it is."""
    import subprocess

    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300m", "none", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


class Night:
    """One fleet, and the person whose line drops."""

    def __init__(self, fleet: Shell) -> None:
        self.fleet = fleet
        self.seen = fleet.root / ".supervisor" / "last-seen"

    def look_and_drop(self) -> None:
        """Open the screen, see what it tells, and lose the line; what it tells agrees with the files."""
        since_t = float(self.seen.read_text()) if self.seen.exists() else None
        terminal = self.open()
        try:
            terminal.shows("steady")
            if since_t is not None:
                self.agrees(terminal, since_t)
            terminal.hang_up()
            terminal.process.wait(timeout=10)
        finally:
            terminal.end()

    def open(self) -> Terminal:
        return Terminal([sys.executable, "-m", "mission_tui"], cwd=self.fleet.cwd, environ=self.fleet.environ)

    def agrees(self, terminal: Terminal, since_t: float) -> dict[str, int]:
        """Wait until the screen tells exactly what the files say of the time after `since_t`; what that is."""
        came_t = time.time()

        def same() -> dict[str, int] | None:
            wanted = happened(accounts(self.fleet.root), since_t, came_t + GRACE_S)
            return wanted or {"nothing": 0} if told(terminal.text()) == wanted else None

        try:
            return until(same, 2 * GRACE_S) or {}
        except AssertionError:
            wanted = happened(accounts(self.fleet.root), since_t, came_t + GRACE_S)
            raise AssertionError(f"the files say {wanted}, the screen {terminal.text()}") from None

    def kill_supervisor(self) -> None:
        """SIGKILL; the next client starts another."""
        pid = self.fleet.json("supervisor", "status", timeout_s=30)["pid"]
        psutil.Process(pid).kill()
        until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)

    def power_cut(self) -> None:
        """Every process of the fleet is gone, and the machine has another boot id."""
        power_cut(processes_of(self.fleet.root))
        assert forget_boot(self.fleet.root) > 0

    def save(self, name: str) -> None:
        """A checkpoint of the run, on request."""
        assert self.fleet("checkpoint", name).returncode == 0
        until(lambda: self.fleet.view(name)["attempt"] and list(self.fleet.root.glob(f"*{name}*/checkpoints/0*")), 20)


def told(text: str) -> dict[str, int]:
    """The counts that stand below the meters; empty when nothing does."""
    joined = re.sub(r"\s+", " ", text)
    found = re.search(r"While you were away since [^:]*:?[^)]*\): (.+?) (?:best return|M all of it)", joined)
    if found is None:
        return {}
    return {name: int(hit[1]) for name, pattern in COUNTS.items() if (hit := re.search(pattern, found[1]))}


def happened(found: dict[str, Account], since_t: float, until_t: float) -> dict[str, int]:
    """The same counts from the files."""

    def within(t: float | None) -> bool:
        return t is not None and since_t < t <= until_t

    over = [it for it in found.values() if it.over and within(it.ended_t)]
    counts = {
        "ended": len(over),
        "failed": sum(it.outcome == "failed" for it in over),
        "lost": sum(it.outcome == "lost" for it in over),
        "parked": sum(it.parked for it in over),
        "restarts": sum(within(t) for it in found.values() for t in it.restarts),
        "reboots": sum(within(t) for it in found.values() for t in it.reboots),
        "findings": sum(
            within(finding["first_t"]) and finding["grave"] for it in found.values() for finding in it.stories
        ),
    }
    return {name: count for name, count in counts.items() if count}


def rows_agree(terminal: Terminal, found: dict[str, Account]) -> None:
    """Every line of the table has the outcome, the share done and the return of the files, once nobody trains."""
    text = terminal.text()
    for account in found.values():
        row = next(line for line in text.splitlines() if re.match(rf".{{3}}{account.name} ", line))
        assert account.outcome is not None
        share = None if not account.total or account.timesteps is None else account.timesteps / account.total
        last = account.returns[-1][1] if account.returns else None
        word = "parked" if account.parked else account.outcome
        wanted = [word, numbers.percent(share), numbers.reading(last)]
        assert row[3:].split()[1:4] == wanted, (row, account)
    assert header_of(found) in text.splitlines()[0]


def header_of(found: dict[str, Account]) -> str:
    """The counts of the top line once nobody trains."""
    parked = sum(account.parked for account in found.values())
    return f"0 live {f'{parked} parked ' if parked else ''}{len(found) - parked} ended"


@pytest.fixture
def night(tmp_path: Path) -> Iterator[tuple[Night, bool]]:
    """A fleet with an installed package of its own, and whether its disk can be filled."""
    with disk(tmp_path / "disk") as mounted, opened(tmp_path / "disk") as fleet:
        site = tmp_path / "site"
        site.mkdir()
        install(site, "1.0.0")
        trainer = Path(__file__).with_name("night_trainer.py")
        fleet.environ.update(PYTHONPATH=f"{site}:{REPOSITORY}", MISSION_TUI_TRAINER=str(trainer))
        try:
            yield Night(fleet), mounted
        finally:
            # Whoever ends the fleet asks the supervisor that is there, and a night may have left none.
            fleet("status")


def test_in_the_morning_every_number_agrees_with_the_files(night: tuple[Night, bool], tmp_path: Path) -> None:
    """What ended, failed, was lost, restarted, resumed and was found, the best returns, and every line of the table."""
    person, mounted = night
    fleet = person.fleet
    presets(fleet.cwd / "presets", updates=60 * DROPS)
    names = ("real", "steady", "left", "flaky", "short", "sick", "broken")
    for name in names:
        fleet.launch(name, "--name", name)
    for name in names:
        fleet.advancing(name)
    for name in ("steady", "left"):
        person.save(name)
    for drop in range(DROPS):
        person.look_and_drop()
        if drop == DROPS // 4 and mounted:
            ballast = fill(fleet.cwd)
            until(lambda: fleet.json("status", timeout_s=30)["host"]["disk_full"], 30, "the disk is full")
            ballast.unlink()
            until(lambda: not fleet.json("status", timeout_s=30)["host"]["disk_full"], 30, "there is room again")
        elif drop == DROPS // 2:
            install(tmp_path / "site", "2.0.0")
        elif drop == 3 * DROPS // 4:
            person.kill_supervisor()
    assert fleet.json("status", timeout_s=30)["supervisor"]["version"] == "2.0.0"
    ending = ("short", "sick", "broken")
    until(lambda: all(accounts(fleet.root)[name].over for name in ending), 30 + 10 * DROPS, "three runs ended")
    until(lambda: accounts(fleet.root)["flaky"].restarts, 60, "one run was restarted")
    since_t = float(person.seen.read_text())
    person.power_cut()
    terminal = person.open()
    try:
        until(lambda: accounts(fleet.root)["left"].over, 20, "the reboot is on record")
        until(lambda: all(accounts(fleet.root)[name].reboots for name in ("real", "steady")), 30, "two went on")
        counts = person.agrees(terminal, since_t)
        assert counts["lost"] == 1
        assert counts["reboots"] >= 2
        until(lambda: all(fleet.view(name)["attempt"] == 2 for name in ("real", "steady")), 30, "both go on")
        until(lambda: "best return" in terminal.text(), 20)
        best = re.search(r"best return(.+?) +M all of it", terminal.text())
        assert best is not None
        found = accounts(fleet.root)
        for name, value in re.findall(r"  (\S+) (\S+)", best[1]):
            if found[name].over:
                known = found[name].best
                assert known is not None
                assert value == numbers.reading(known)
        terminal.press("escape")
        assert fleet("stop", "--all").returncode == 0
        until(lambda: all(it.over for it in accounts(fleet.root).values()), 60, "everything has ended")
        until(lambda: header_of(accounts(fleet.root)) in terminal.text(), 20, "the screen knows")
        rows_agree(terminal, accounts(fleet.root))
        terminal.press("q")
        terminal.process.wait(timeout=10)
    finally:
        terminal.end()
    said = {run["name"]: (run["outcome"], run["timesteps"]) for run in fleet.json("status", timeout_s=30)["runs"]}
    assert said == {name: (it.outcome, it.timesteps) for name, it in accounts(fleet.root).items()}
    if not mounted:
        pytest.skip("all but the full disk, which needs root, was done")
