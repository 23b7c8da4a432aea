"""`mission-tui doctor`: what this machine and this environment mean for trainings, and what would help. Each check
says what it found, and what would help where it matters: cores, memory, disk and GPU; this installation, by the
metadata of its packages alone; the runs root, the sockets, the supervisor and the health file; logging out; and the
terminal of this call.

A check never fails because of what it finds, leaves nothing running, and loads neither torch nor a driver library:
NVML is asked by a process of its own, which may hang, and CUDA of torch's version file. MPS is looked for in the file
system alone, and nobody starts it.

`paths` says where this call looks for runs, sockets, logs, presets and limits, which other runs roots are live, and
where the two files are that other people's environments take from here. Nothing is made by asking.
"""

from __future__ import annotations

import ast
import locale
import os
import platform
import shlex
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from msgspec import Struct

from mission_tui.cli.follow_runs import snapshot_of
from mission_tui.cli.options import json_option, set_option
from mission_tui.cli.screen import can_draw
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import Colour, Styled, write
from mission_tui.control_groups import group_cores, group_memory, usable_cores
from mission_tui.errors import (
    EX_FAILED,
    MissionError,
    NoSupervisorError,
    PresetError,
    UsageError,
    install_words,
    nearest,
)
from mission_tui.gpu_driver import (
    NOT_SUPPORTED,
    TOOLKIT,
    WSL,
    Driver,
    Mps,
    ask_driver,
    find_mps,
    has_amd_gpu,
    loaded_module,
)
from mission_tui.paths import health_files, lingers, socket_dir
from mission_tui.present.machines import START, STOP
from mission_tui.present.numbers import size
from mission_tui.procfs import marker_of, own_processes, short_name
from mission_tui.records.runs_roots import SHARED, file_system, renamed_by_others

if TYPE_CHECKING:
    from mission_tui.ipc.replies import UpgradesReply

COLOURS: dict[str, Colour] = {"ok": "green", "note": "cyan", "warn": "yellow", "bad": "red"}
TAKEN = ("hook", "report")
"""Named by their paths, or copied, where mission-tui is not installed."""


@click.command("doctor")
@click.option("--launcher", metavar="NAME", help="Try the road to slurm or ray instead, by a small job.")
@set_option
@json_option
@pass_session
def doctor_command(session: Session, launcher: str | None, assignments: tuple[str, ...], as_json: bool) -> int:
    """Check this machine and this environment, or try a cluster.

    Exit code 1 when trainings cannot run here, or there.
    """
    from msgspec.structs import asdict

    from mission_tui import __version__
    from mission_tui.cli.tables.documents import write_document

    if assignments and launcher is None:
        raise UsageError("--set says what is asked of a cluster: add --launcher slurm, or ray")
    checks = iter(all_checks(session)) if launcher is None else cluster_checks(session, launcher, assignments)
    found: list[Check] = []
    for check in checks:
        found.append(check)
        if not as_json:
            write(Styled(check.level.ljust(4), COLOURS[check.level]), f"  {check.name:14} {check.detail}")
            if check.advice:
                write(f"      {'':14} -> {check.advice}")
    healthy = all(check.level != "bad" for check in found)
    if as_json:
        write_document({"version": __version__, "healthy": healthy, "checks": [asdict(check) for check in found]})
    return 0 if healthy else EX_FAILED


@click.command("paths")
@json_option
@pass_session
def paths_command(session: Session, as_json: bool) -> None:
    """Show the folders in use."""
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.cli.terminal_output import Table
    from mission_tui.ipc.start import live_roots
    from mission_tui.records.runs.layout import supervisor_dir

    elsewhere = live_roots(session.root)
    sockets = socket_dir(session.root)
    log = supervisor_dir(session.root) / "supervisor.log"
    if as_json:
        presets = [str(folder) for folder in session.preset_dirs]
        health = [str(file) for file in health_files(session.environ)]
        places = {"runs_root": str(session.root), "sockets": str(sockets), "supervisor_log": str(log)}
        others = [{"root": other.root, "live": other.live} for other in elsewhere]
        found = {"presets": presets, "health": health, "elsewhere": others}
        write_document(places | found | {it: _source(it) for it in TAKEN})
        return
    table = Table(("what", "where"))
    table.add("runs", str(session.root))
    for other in elsewhere:
        table.add("also live", f"{other.root}{other.remark}")
    table.add("sockets", str(sockets))
    table.add("supervisor log", str(log))
    for folder in session.preset_dirs:
        table.add("presets", str(folder) if folder.is_dir() else f"{folder} (absent)")
    for file in health_files(session.environ):
        table.add("health limits", str(file) if file.is_file() else f"{file} (absent)")
    for name in TAKEN:
        table.add(name, _source(name))
    table.write(sys.stdout)


def _source(name: str) -> str:
    spec = find_spec(f"mission_tui.{name}")
    assert spec is not None
    assert spec.origin is not None
    return spec.origin


Level = Literal["ok", "note", "warn", "bad"]


class Check(Struct, frozen=True):
    """Level `bad`: trainings cannot run here; `warn`: something will go wrong; `note`: something optional is absent."""

    name: str
    level: Level
    detail: str
    advice: str = ""


def all_checks(session: Session) -> list[Check]:
    """Every check, in the order of the report."""
    return [
        *software_checks(),
        *machine_checks(session.root),
        *gpu_checks(session.environ),
        *place_checks(session),
        *upgrade_checks(session),
        *login_checks(),
        *terminal_checks(session.environ),
    ]


def cluster_checks(session: Session, launcher: str, assignments: Sequence[str]) -> Iterator[Check]:
    """What trying a cluster finds, each check as soon as a process of its own has made it; it asks for what
    `assignments` and this user's file of clusters say.

    Raises `UsageError` for a launcher that is none, and `PresetError`.
    """
    import subprocess

    import msgspec

    from mission_tui.cli.plan import resolved
    from mission_tui.fleet.specs.assignment import expand
    from mission_tui.fleet.specs.preset import read_preset
    from mission_tui.fleet.specs.schema import ENGINES

    if launcher not in ENGINES:
        near = nearest(launcher[:40], ENGINES) or f"; known are {', '.join(ENGINES)}"
        raise UsageError(f"--launcher {launcher[:40]!r} is no cluster{near}")
    (words,) = expand((*assignments, f"run.launcher={launcher}"))
    preset = read_preset({"env": {"id": "CartPole-v1"}, "run": {"total_timesteps": 1}, "name": "doctor"}, session.root)
    spec = resolved(preset, words, "none", session.preset_dirs, ())
    asked = msgspec.json.encode({"spec": spec, "root": str(session.root)}).decode()
    asking = subprocess.Popen(
        [sys.executable, "-P", "-m", "mission_tui.supervisor.launchers.cluster_check", asked],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=dict(session.environ),
    )
    assert asking.stdout is not None
    try:
        for line in asking.stdout:
            yield msgspec.json.decode(line, type=Check)
        if asking.wait() != 0:
            yield Check(
                launcher, "bad", f"the check ended with exit code {asking.returncode}: what it printed says more"
            )
    finally:
        asking.stdout.close()
        if asking.poll() is None:
            # It takes its job back before it leaves.
            asking.terminate()
            asking.wait()


RAM_LOW_BYTES = 2 << 30
INODES_LOW = 1000
DISK_LOW_BYTES = 5 << 30
OLDEST_DRIVER = {11: 450, 12: 525, 13: 580}
"""Oldest driver branch per CUDA major (CUDA Toolkit release notes, table of minor version compatibility)."""


def machine_checks(root: Path) -> list[Check]:
    """One check per resource; disk is that of the runs root."""
    return [_cores(), _memory(), _disk(root)]


def _cores() -> Check:
    cores, present = len(os.sched_getaffinity(0)), os.cpu_count()
    detail = f"{cores} usable of {present}"
    if (quota := group_cores()) is not None and quota < cores:
        cores = usable_cores()
        detail = f"a quota of {quota:.4g} of the {detail}: this control group stands still beyond it"
    if cores < 2:
        return Check(
            "cores", "warn", detail, "one core trains one run at a time; expect each further run to halve the speed"
        )
    return Check("cores", "ok", detail)


def _memory() -> Check:
    import psutil

    memory, group = psutil.virtual_memory(), group_memory()
    free, detail = memory.available, f"{size(memory.available)} free of {size(memory.total)}"
    if group is not None and group.limit < memory.total:
        # A container or a batch job: who takes more is killed, whatever the machine has free.
        free = min(free, group.left)
        detail = f"{size(free)} free of the {size(group.limit)} of this control group; the machine has {detail}"
    if free < RAM_LOW_BYTES:
        return Check(
            "memory", "warn", detail, "a training takes about 0.6G before its rollout buffer: end other programs first"
        )
    return Check("memory", "ok", detail)


def _disk(root: Path) -> Check:
    ground = root
    while not ground.exists():
        ground = ground.parent
    usage = shutil.disk_usage(ground)
    detail = f"{size(usage.free)} free of {size(usage.total)} at {ground}"
    if usage.free < DISK_LOW_BYTES:
        return Check(
            "disk", "warn", detail, "checkpoints may fill it: free some space or move the runs root with --runs-dir"
        )
    names = os.statvfs(ground)
    if names.f_files and names.f_favail < INODES_LOW:
        detail = f"{detail}, but only {names.f_favail:,} inodes of {names.f_files:,} (`df -i`)"
        return Check("disk", "warn", detail, "a run needs about 40, and more for each checkpoint: remove files there")
    return Check("disk", "ok", detail)


def gpu_checks(environ: Mapping[str, str]) -> list[Check]:
    """The pair of driver and torch build on this machine; and where there is a GPU to share, MPS."""
    driver = ask_driver()
    sharing = [judge_mps(find_mps(environ))] if driver.gpus else []
    return [judge_gpus(driver, loaded_module(), _torch_cuda()), *sharing]


def judge_gpus(driver: Driver, module: str | None, cuda: str | None) -> Check:
    """What NVML says, the kernel module's release (None: no such file, as in WSL2), and torch's CUDA version `cuda`."""
    if driver.gpus or (driver.version and not driver.why):
        if not driver.gpus:
            advice = "a container is given GPUs when it is started; else `nvidia-smi -L` lists what the driver sees"
            return Check("gpu", "warn", f"driver {driver.version} lists no GPU: trainings use the CPU", advice)
        return judge_driver(driver.version or module, cuda)
    if driver.absent and module is None:
        if has_amd_gpu():
            advice = "trainings use it only with a ROCm build of torch, which was never tried here"
            return Check("gpu", "note", NOT_SUPPORTED, advice)
        advice = (
            "in WSL2 it comes from Windows: install NVIDIA's driver there, then `wsl --shutdown`"
            if WSL.exists()
            else ""
        )
        return Check("gpu", "note", "no NVIDIA driver is loaded: trainings use the CPU", advice)
    loaded = f"driver {module} is loaded, but " if module is not None else ""
    advice = "compare with `nvidia-smi`; after an upgrade of the driver restart the machine"
    if driver.absent:
        advice = f"install the driver's libraries here (a container gets them from the {TOOLKIT})"
    elif driver.refused:
        advice = (
            "this user may not open /dev/nvidia*: a rootless container is given them with `--device nvidia.com/gpu=all`"
        )
    return Check("gpu", "warn", f"{loaded}NVML cannot be asked: {driver.why}; trainings may use the CPU", advice)


def judge_driver(driver: str | None, cuda: str | None) -> Check:
    """What driver release `driver` (None: not known) and CUDA version `cuda` of torch (None: absent) mean together."""
    if driver is None:
        return Check("gpu", "note", "the driver does not say its release")
    if cuda is None:
        advice = "to use the GPU install a CUDA build of torch: pip install --force-reinstall torch"
        return Check("gpu", "warn", f"driver {driver}, but torch was built without CUDA", advice)
    detail = f"driver {driver}, torch built for CUDA {cuda}"
    oldest, branch = OLDEST_DRIVER.get(int(cuda.split(".")[0])), driver.split(".")[0]
    if oldest is not None and branch.isdecimal() and int(branch) < oldest:
        advice = (
            f"the driver is too old: CUDA {cuda} needs release {oldest} or newer; update it, or install an older torch"
        )
        return Check("gpu", "bad", detail, advice)
    return Check("gpu", "ok", detail)


def _torch_cuda() -> str | None:
    """The CUDA version in torch's `version.py`, such as `12.8`; None for a CPU build."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    try:
        tree = ast.parse((Path(spec.origin).parent / "version.py").read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        return None
    for node in tree.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id="cuda"), value=ast.Constant(value=str(value))):
                return value
            case ast.Assign(targets=[ast.Name(id="cuda")], value=ast.Constant(value=str(value))):
                return value
            case _:
                continue
    return None


def judge_mps(mps: Mps) -> Check:
    """What that means for several runs on one GPU."""
    if mps.running:
        whose = "" if mps.ours else ", but it belongs to another user and may refuse you"
        return Check("mps", "ok" if mps.ours else "note", f"MPS runs at {mps.folder}{whose}; end it with: {STOP}")
    if not mps.installed:
        return Check("mps", "note", "MPS is not installed: several runs on one GPU take turns")
    advice = (
        f"to run them side by side, before they start: {START} (four `heavy` made 1.6 times the steps on an H100); a "
        f"GPU fault of one run can then end the others, and it is ended with: {STOP}"
    )
    return Check("mps", "note", "MPS does not run: several runs on one GPU take turns", advice)


NEEDED = ("torch", "stable-baselines3", "gymnasium", "numpy", "textual", "msgspec", "psutil", "safetensors")
OPTIONAL = {
    "sb3-contrib": "MaskablePPO and RecurrentPPO",
    "tensorboard": "TensorBoard event files",
    "textual-serve": "the screen in a browser (`mission-tui serve`)",
    "box2d": "LunarLander, BipedalWalker and CarRacing",
    "mujoco": "HalfCheetah, Hopper and the other MuJoCo tasks",
    "ale-py": "Atari games",
}
EXTRAS = {"sb3-contrib": "contrib", "tensorboard": "tensorboard", "textual-serve": "serve"}
"""The extra that brings a package; the environments' extra brings the others."""
COLUMNS, ROWS = 80, 24
ADVICE = "the run goes on with what it has loaded; processes it starts later, and a resume, use the new version"
SETTINGS = (Path("/usr/lib/systemd"), Path("/run/systemd"), Path("/etc/systemd"))
LINGER_ADVICE = (
    "`loginctl enable-linger`, `mission-tui supervisor stop`, then `mission-tui service install --now`: "
    "runs launched after that survive a logout"
)


def software_checks() -> list[Check]:
    """Interpreter, needed packages, and what optional packages would bring."""
    python = Check("python", "ok", f"{platform.python_version()} at {sys.executable}")
    return [python, _needed(), *(_optional(name, brings) for name, brings in OPTIONAL.items())]


def _installed(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version  # a tenth of a start, which `paths` can do without

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _needed() -> Check:
    found = {name: _installed(name) for name in NEEDED}
    missing = [name for name, release in found.items() if release is None]
    if missing:
        return Check(
            "packages",
            "bad",
            f"missing: {', '.join(missing)}",
            "install mission-tui here again (see README)",
        )
    return Check("packages", "ok", ", ".join(f"{name} {release}" for name, release in found.items()))


def _optional(name: str, brings: str) -> Check:
    release = _installed(name)
    if release is not None:
        return Check(name, "ok", release)
    return Check(name, "note", "not installed", f"for {brings}; {install_words(EXTRAS.get(name, 'envs'))}")


def terminal_checks(environ: Mapping[str, str]) -> list[Check]:
    """One check: kind, size and encoding of the terminal."""
    if not can_draw(environ):
        advice = "use `mission-tui status`, `launch --wait` and the other verbs, or open the screen in a terminal"
        return [Check("terminal", "note", f"no terminal for the screen (TERM={environ.get('TERM', '')!r})", advice)]
    size = os.get_terminal_size(sys.stdout.fileno())
    encoding = locale.getencoding()
    detail = f"{environ['TERM']}, {size.columns}x{size.lines}, {encoding}"
    if size.columns < COLUMNS or size.lines < ROWS:
        return [Check("terminal", "warn", detail, f"the screen wants {COLUMNS}x{ROWS} or more: enlarge the window")]
    if encoding.lower().replace("-", "") != "utf8":
        return [Check("terminal", "warn", detail, "without UTF-8 the screen falls back to ASCII: set LANG=C.UTF-8")]
    return [Check("terminal", "ok", detail)]


def upgrade_checks(session: Session) -> list[Check]:
    """A check for each live run under which something changed; nothing is started for it."""
    from mission_tui.ipc.requests import GetUpgrades

    try:
        with session.connect(start=False) as connection:
            return judge_upgrades(connection.ask(lambda id_: GetUpgrades(id=id_)))
    except NoSupervisorError:
        return []
    except MissionError as error:
        return [Check("upgrades", "note", f"what live runs were launched with cannot be compared: {error}")]


def judge_upgrades(reply: UpgradesReply) -> list[Check]:
    """One warning for each run that `reply` names, else one word for all that were looked at."""
    if not reply.upgrades:
        has = "run has what it was" if reply.looked == 1 else "runs have what they were"
        return [Check("upgrades", "ok", f"{reply.looked} live {has} launched with")]
    return [
        Check(
            "upgrades",
            "warn",
            f"{one.name}: " + "; ".join(f"{change.name}: {change.was} -> {change.now}" for change in one.changes),
            ADVICE,
        )
        for one in reply.upgrades
    ]


def place_checks(session: Session) -> list[Check]:
    """Runs root, its file system, the socket folder, the supervisor, health limits; none is created or started."""
    root = session.root
    own = [_runs_root(session), _file_system(root), _sockets(root), _supervisor(session), _health(session)]
    return [*own, *without_directory()]


def _runs_root(session: Session) -> Check:
    try:
        session.require_writable_root()
    except UsageError as error:
        return Check("runs root", "bad", str(error))
    if (folder := renamed_by_others(session.root)) is not None:
        advice = (
            "its supervisor leaves if they do, and what is launched then goes elsewhere: take their right to write "
            f"away (`chmod g-w,o-w {shlex.quote(str(folder))}`), make it sticky (`chmod +t`), or choose another root"
        )
        return Check("runs root", "warn", f"{session.root}: others may rename or replace it, in {folder}", advice)
    if session.root.is_dir() and not os.access(session.root, os.W_OK | os.X_OK):
        advice = f"a disk may be read-only (`findmnt -T .` there), or `chmod u+rwx {shlex.quote(str(session.root))}`"
        return Check("runs root", "bad", f"{session.root} cannot be written: runs go on, none can start", advice)
    absent = "" if session.root.is_dir() else " (made at the first launch)"
    return Check("runs root", "ok", f"{session.root}{absent}")


def _file_system(root: Path) -> Check:
    kind, best = file_system(root)
    if kind.split(".")[0] in SHARED:
        advice = "locks on it may fail or hang: keep the runs root on a local disk and copy ended runs over"
        return Check("file system", "warn", f"{kind} at {best}", advice)
    return Check("file system", "ok", f"{kind} at {best}")


def _sockets(root: Path) -> Check:
    folder = socket_dir(root).parent
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return room_for_sockets(folder.parent) or Check("sockets", "ok", f"{folder} (made with the first supervisor)")
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        advice = "remove it, or make it yours with mode 0700; if it is another user's, ask them to remove it"
        return Check("sockets", "bad", f"{folder} is not private to you", advice)
    return room_for_sockets(folder) or Check("sockets", "ok", str(folder))


def room_for_sockets(folder: Path) -> Check | None:
    """What stands against new ones there, such as a full /tmp: those that are there go on all the same."""
    disk = os.statvfs(folder)
    if disk.f_flag & os.ST_RDONLY:
        return Check("sockets", "bad", f"{folder} is on a read-only file system", "mount it writable again")
    if disk.f_bavail == 0 or (disk.f_files and disk.f_favail == 0):
        return Check("sockets", "bad", f"the file system of {folder} is full", "free some disk space (or inodes) there")
    return None


def _supervisor(session: Session) -> Check:
    try:
        with session.connect(start=False) as connection:
            welcome, snapshot = connection.welcome, snapshot_of(connection)
    except NoSupervisorError:
        return Check("supervisor", "note", "none is running; the first launch or screen starts one")
    except MissionError as error:
        return Check("supervisor", "bad", str(error), "see the supervisor log; `mission-tui paths` shows where")
    who = f"pid {welcome.pid}, version {welcome.version}"
    failed = [each.sentence for each in snapshot.failed_duties]
    if snapshot.host.gpu_note.startswith("GPU meters"):
        failed.append(snapshot.host.gpu_note)
    if failed:
        return Check(
            "supervisor", "warn", f"{who}: {'; '.join(failed)}", "see its log; `mission-tui paths` shows where"
        )
    return Check("supervisor", "ok", who)


def without_directory() -> list[Check]:
    """A warning for each run of this user whose processes live on although its directory was removed under them.

    A directory that was moved is theirs still: they hold its lease where it is now.
    """
    by_run: dict[str, list[int]] = {}
    for seen in own_processes():
        if seen.state != "Z" and (marker := marker_of(seen.pid)) is not None:
            by_run.setdefault(marker["MISSION_TUI_RUN_DIR"], []).append(seen.pid)
    return [
        _without_directory(Path(folder), pids)
        for folder, pids in sorted(by_run.items())
        # As each of them sees it: that of a container has other files.
        if Path(folder).is_absolute() and not any(os.path.lexists(f"/proc/{pid}/root{folder}") for pid in pids)
        if not any(_holds_moved_lease(pid) for pid in pids)
    ]


def _without_directory(folder: Path, pids: Sequence[int]) -> Check:
    count = f"{len(pids)} process{'es' if len(pids) > 1 else ''}"
    detail = f"{count} of {short_name(folder.name)} still at work, though {folder} was removed"
    numbers = " ".join(map(str, pids))
    advice = f"to end them: `mission-tui --runs-dir {shlex.quote(str(folder.parent))} clean`, or `kill -9 {numbers}`"
    return Check("leftovers", "warn", detail, f"nothing of what they do is kept; {advice}")


def _holds_moved_lease(pid: int) -> bool:
    held = Path(f"/proc/{pid}/fd")
    try:
        return any(each.readlink().name == "lease" for each in held.iterdir())
    except OSError:
        return False  # it has gone, or tells nobody


def _health(session: Session) -> Check:
    try:
        own, *shipped = session.health()
    except PresetError as error:
        return Check("health limits", "bad", str(error), "every launch reads this file: correct it")
    return Check("health limits", "ok", f"{own.path} over the defaults" if shipped else "the defaults")


def login_checks() -> list[Check]:
    """One check: logind's `KillUserProcesses`, and whether lingering is on."""
    if not any((folder / "logind.conf").exists() for folder in SETTINGS):
        return [Check("logout", "ok", "no logind settings here: runs live on after logout")]
    kills = kills_user_processes(_settings())
    if not kills:
        return [Check("logout", "ok", "KillUserProcesses=no: runs live on after logout")]
    if lingers():
        return [
            Check(
                "logout", "warn", "KillUserProcesses=yes; lingering is on, but covers user services only", LINGER_ADVICE
            )
        ]
    return [Check("logout", "warn", "KillUserProcesses=yes: logging out kills every run", LINGER_ADVICE)]


def _settings() -> list[str]:
    """The lines of every logind settings file, in the order in which they override each other."""
    files = [folder / "logind.conf" for folder in SETTINGS]
    files += sorted(
        (part for folder in SETTINGS for part in (folder / "logind.conf.d").glob("*.conf")), key=lambda p: p.name
    )
    return [line for file in files if file.exists() for line in file.read_text("utf-8", "replace").splitlines()]


def kills_user_processes(lines: Iterable[str]) -> bool:
    """Whether settings `lines` (the last one wins) say `KillUserProcesses=yes`; distributions ship with no."""
    kills = False
    for line in lines:
        key, _, value = line.partition("=")
        if key.strip() == "KillUserProcesses":
            kills = value.strip().lower() in ("yes", "true", "on", "1")
    return kills
