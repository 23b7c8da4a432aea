"""Cores, memory, disk and GPU: what trainings will share, and whether NVIDIA's Multi-Process Service shares the GPU.

The driver is asked through NVML in a process of its own, which may hang, and CUDA of torch's version file: loading
torch costs a second. MPS is looked for in the file system alone; nothing is written to its pipes, and nobody starts it.
"""

from __future__ import annotations

import ast
import os
import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from mission_tui.cli.doctor_checks import Check
from mission_tui.control_groups import group_cores, group_memory, usable_cores
from mission_tui.gpu_driver import NOT_SUPPORTED, TOOLKIT, WSL, Driver, ask_driver, has_amd_gpu, loaded_module
from mission_tui.present.machines import START, STOP, Mps
from mission_tui.present.numbers import size

RAM_LOW_BYTES = 2 << 30
INODES_LOW = 1000
DISK_LOW_BYTES = 5 << 30
OLDEST_DRIVER = {11: 450, 12: 525, 13: 580}
"""Oldest driver branch per CUDA major (CUDA Toolkit release notes, table of minor version compatibility)."""
PROGRAM = "nvidia-cuda-mps-control"
PIPES = "/tmp/nvidia-mps"  # noqa: S108 - CUDA's own default
_COMM_CHARS = 15
"""The kernel keeps so much of a process's name."""


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


def find_mps(environ: Mapping[str, str]) -> Mps:
    """What is here, for a process with the variables `environ`."""
    folder = Path(environ.get("CUDA_MPS_PIPE_DIRECTORY") or PIPES)
    installed = shutil.which(PROGRAM, path=environ.get("PATH")) is not None
    owner = _owner(folder / "control") if _alive(folder / f"{PROGRAM}.pid") else None
    return Mps(installed, running=owner is not None, folder=str(folder), ours=owner in (None, os.getuid(), 0))


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


def _alive(file: Path) -> bool:
    """Whether the process that the daemon's own file names is that daemon."""
    try:
        pid = int(file.read_text(encoding="ascii"))
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return False
    return name.strip() == PROGRAM[:_COMM_CHARS]


def _owner(pipe: Path) -> int | None:
    try:
        return pipe.stat().st_uid
    except OSError:
        return None
