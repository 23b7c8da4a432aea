"""What is kept of a net on the CPU and on the GPU: for the same net, machine and versions, and whatever lies there."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.tuning.record import DeviceSpeeds
from mission_tui.records import tuning_files
from mission_tui.records.atomic import StorageError
from mission_tui.records.tuning_files import (
    all_kept,
    keep_speeds,
    kept_speeds,
    make_tune_folder,
    measured_of,
    measuring_alone,
)
from tests.full_disk import fill, small_disk
from tests.supervisor.conftest import stub_spec
from tests.waiting import until

SPEEDS = DeviceSpeeds(cpu_s=(0.01, 0.0101, 0.01), gpu_s=(0.031, 0.031, 0.0312), gpu="H100")
SPACES = "Box(4,) -> Discrete(2)"


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Which machine this is; a test may change it."""
    facts = {"host": "node-1", "cores": "8", "cpu": "some", "gpus": "H100, H100"}
    monkeypatch.setattr(tuning_files, "host_fingerprint", lambda: dict(facts))
    return facts


def of(spec: Spec | None = None, python: str = sys.executable, visible: str | None = None) -> dict[str, str]:
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    return measured_of(spec or stub_spec(), python, environ)


def test_what_was_measured_holds_for_the_same_net_machine_python_and_versions(
    host: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its seed and its device; nothing is mixed."""
    spec = stub_spec()
    keep_speeds(tmp_path, of(spec), SPACES, SPEEDS)
    same = structs.replace(spec, run=structs.replace(spec.run, seed=7, device="cuda"))
    assert kept_speeds(tmp_path, of(same), SPACES) == SPEEDS
    assert kept_speeds(tmp_path, of(same)) == SPEEDS
    assert kept_speeds(tmp_path, of(spec), "Box(9,) -> Discrete(2)") is None
    wider = structs.replace(spec, ppo=structs.replace(spec.ppo, net_arch=(512, 512)))
    tf32 = structs.replace(spec, run=structs.replace(spec.run, tf32=not spec.run.tf32))
    others = [of(wider), of(tf32), of(python="/elsewhere/python")]
    for name in host:
        was, host[name] = host[name], "other"
        others.append(of())
        host[name] = was
    monkeypatch.setattr(tuning_files, "versions_here", lambda: {"torch": "9.9"})
    others.append(of())
    assert [kept_speeds(tmp_path, other) for other in others] == [None] * len(others)


def test_a_gpu_of_several_that_are_alike_is_each_of_them(host: dict[str, str]) -> None:
    """As the supervisor gives them to runs, by UUID, and Slurm by number; a part of one is another thing."""
    assert of() == of(visible="GPU-1f") == of(visible="1") == of(visible="0,1")
    assert of() != of(visible="MIG-GPU-1f/1/0")
    assert of() != of(visible="")
    host["gpus"] = "H100, T4"
    assert of() != of(visible="1") != of(visible="0")
    host["gpus"] = "unknown"
    assert of() != of(visible="1")


def test_where_no_gpu_is_known_by_name_nothing_is_kept(host: dict[str, str], tmp_path: Path) -> None:
    """It might be another one tomorrow."""
    del host["gpus"]
    assert of() == {}
    keep_speeds(tmp_path, of(), SPACES, SPEEDS)
    with measuring_alone(tmp_path, of(), 0.0):
        assert kept_speeds(tmp_path, of(), SPACES) is None
    assert list(tmp_path.iterdir()) == []


def file_of(root: Path) -> Path:
    (path,) = (root / "tuning" / "devices").iterdir()
    return path


def said(speeds: str) -> Callable[[Path], object]:
    """A file that says so of this net."""
    return lambda path: path.write_text(
        f'{{"t": 1.0, "of": {msgspec.json.encode(of()).decode()}, "spaces": "", "speeds": {speeds}}}'
    )


def instead(make: Callable[[Path], object]) -> Callable[[Path], object]:
    def replace(path: Path) -> None:
        path.unlink()
        make(path)

    return replace


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize(
    "put",
    [
        lambda path: path.write_text(""),
        lambda path: path.write_bytes(os.urandom(4096)),
        lambda path: path.write_text("[" * 100_000),
        lambda path: os.truncate(path, 1 << 40),
        said('{"cpu_s": [], "gpu_s": []}'),
        said('{"cpu_s": [1.0], "gpu_s": [1.0, 2.0]}'),
        said('{"cpu_s": [0.0, 0.0], "gpu_s": [1.0, 2.0]}'),
        said('{"cpu_s": [-1.0, 2.0], "gpu_s": [1.0, 2.0]}'),
        said('{"cpu_s": [1e308, 1e308], "gpu_s": [1.0, 2.0]}'),
        said('{"cpu_s": ["x"], "gpu_s": [1.0]}'),
        said(f'{{"cpu_s": [{"1.0," * 999}1.0], "gpu_s": [{"1.0," * 999}1.0]}}'),
        lambda path: path.write_text(path.read_text().replace("node-1", "node-2")),
        instead(os.mkfifo),
        instead(Path.mkdir),
        instead(lambda path: path.symlink_to("/dev/zero")),
        instead(lambda path: path.symlink_to(path)),
    ],
)
def test_what_somebody_put_there_is_measured_again(put: Callable[[Path], object], tmp_path: Path) -> None:
    """Damaged, hostile, of another net under its name: never an error, and nobody waits for it."""
    keep_speeds(tmp_path, of(), SPACES, SPEEDS)
    path = file_of(tmp_path)
    put(path)
    assert kept_speeds(tmp_path, of()) is None
    assert all(kept.of != of() for kept in all_kept(tmp_path))
    with measuring_alone(tmp_path, of(), 5.0):
        keep_speeds(tmp_path, of(), SPACES, SPEEDS)
    assert kept_speeds(tmp_path, of()) == (None if path.is_dir() else SPEEDS)


@pytest.mark.usefixtures("host")
def test_a_python_whose_path_is_no_text_is_no_error(tmp_path: Path) -> None:
    """A folder in Latin-1."""
    odd = of(python=os.fsdecode(b"/home/m\xfcller/python"))
    with measuring_alone(tmp_path, odd, 5.0):
        keep_speeds(tmp_path, odd, SPACES, SPEEDS)
    assert kept_speeds(tmp_path, odd) is None


@pytest.mark.usefixtures("host")
def test_a_full_disk_is_no_error(tmp_path: Path) -> None:
    """It is measured the next time again."""
    with small_disk(tmp_path / "disk", 1 << 20) as root:
        fill(root)
        with measuring_alone(root, of(), 5.0):
            keep_speeds(root, of(), SPACES, SPEEDS)
        assert kept_speeds(root, of()) is None


@pytest.mark.usefixtures("host")
def test_a_root_that_takes_nothing_is_no_error(tmp_path: Path) -> None:
    """Read-only, or something else in its place: it is measured as if there were none."""
    (tmp_path / "tuning").write_text("in its place")
    with measuring_alone(tmp_path, of(), 5.0):
        keep_speeds(tmp_path, of(), SPACES, SPEEDS)
    assert kept_speeds(tmp_path, of()) is None
    assert all_kept(tmp_path) == []


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize("link", ["tuning", "tuning/devices"])
def test_nothing_is_written_through_a_link(link: str, tmp_path: Path) -> None:
    """In a runs root that came from somebody else it may lead anywhere, and so may the journal of a tune."""
    elsewhere, root = tmp_path / "elsewhere", tmp_path / "runs"
    elsewhere.mkdir()
    (root / link).parent.mkdir(parents=True)
    (root / link).symlink_to(elsewhere)
    with measuring_alone(root, of(), 5.0):
        keep_speeds(root, of(), SPACES, SPEEDS)
    assert kept_speeds(root, of()) is None
    with pytest.raises(StorageError, match=r"symbolic link|Not a directory"):
        make_tune_folder(root, "devices")
    assert list(elsewhere.rglob("*")) == []


def holding(root: Path, forked: bool = False) -> int:
    """A process that measures, until it is killed."""
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        with measuring_alone(root, of(), 0.0):
            if forked and os.fork() == 0:
                time.sleep(30)
                os._exit(0)
            os.write(told, b"x")
            time.sleep(1.0 if forked else 600)
        time.sleep(600)
    os.read(ready, 1)
    return pid


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize("how", ["killed", "left something behind", "goes on"])
def test_others_wait_for_whoever_measures_and_never_for_long(how: str, tmp_path: Path) -> None:
    """One that was killed holds nobody up, nor does what it forked; one that goes on does so for a time."""
    pid = holding(tmp_path, forked=how == "left something behind")
    began = time.monotonic()
    try:
        if how == "killed":
            os.kill(pid, signal.SIGKILL)
        with measuring_alone(tmp_path, of(), 0.5 if how == "goes on" else 25.0):
            waited = time.monotonic() - began
    finally:
        if how != "killed":
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert waited < 20.0
    assert waited >= 0.5 or how != "goes on"


@pytest.mark.usefixtures("host")
def test_whoever_has_waited_finds_what_was_measured_meanwhile(tmp_path: Path) -> None:
    """Although the file in its place is a new one."""
    begun, on = tmp_path / "begun", tmp_path / "on"
    pid = os.fork()
    if pid == 0:
        with measuring_alone(tmp_path, of(), 0.0):
            begun.touch()
            until(on.exists)
            time.sleep(0.5)
            keep_speeds(tmp_path, of(), SPACES, SPEEDS)
        os._exit(0)
    until(begun.exists)
    assert kept_speeds(tmp_path, of()) is None
    on.touch()
    with measuring_alone(tmp_path, of(), 30.0):
        assert kept_speeds(tmp_path, of()) == SPEEDS
    os.waitpid(pid, 0)
