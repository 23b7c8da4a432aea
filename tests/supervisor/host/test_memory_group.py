"""In a control group with less memory or fewer cores than the machine has, runs are given of what the group has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mission_tui.cli.verbs import doctor
from mission_tui.control_groups import GroupMemory, group_cores, group_memory, usable_cores
from mission_tui.supervisor.host import machine as host

MIB = 1 << 20


def group(folder: Path, limit: str, used: int = 0, cached: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon {used - cached}\ninactive_file {cached}\n")


def test_the_tightest_of_all_groups_above_counts(tmp_path: Path) -> None:
    """Page cache that can be dropped is free; `max` limits nothing."""
    mount, own = tmp_path / "cgroup", tmp_path / "own"
    own.write_text("0::/slurm/job\n")
    group(mount / "slurm" / "job", str(900 * MIB), 100 * MIB, 50 * MIB)
    group(mount / "slurm", str(600 * MIB), 200 * MIB)
    group(mount, "max")
    assert group_memory(mount, own) == GroupMemory(600 * MIB, 400 * MIB)


def test_without_limits_the_machine_counts(tmp_path: Path) -> None:
    """No limit, nothing readable, or a path that is mounted elsewhere: nothing is said, or what the root says."""
    mount, own = tmp_path / "cgroup", tmp_path / "own"
    assert group_memory(mount, own) is None
    own.write_text("4:memory:/docker/1\n")
    group(mount, "max")
    assert group_memory(mount, own) is None
    own.write_text("0::/not/here\n")
    assert group_memory(mount, own) is None
    group(mount, str(500 * MIB), 100 * MIB)
    assert group_memory(mount, own) == GroupMemory(500 * MIB, 400 * MIB)


def test_the_first_version_counts_too(tmp_path: Path) -> None:
    """Its files have other names, and no limit is a number that no machine has."""
    folder, own = tmp_path / "cgroup" / "memory" / "docker", tmp_path / "own"
    own.write_text("4:memory:/docker\n0::/\n")
    folder.mkdir(parents=True)
    for limit, said in ((str(500 * MIB), GroupMemory(500 * MIB, 450 * MIB)), (str((1 << 63) - 4096), None)):
        (folder / "memory.limit_in_bytes").write_text(limit)
        (folder / "memory.usage_in_bytes").write_text(str(80 * MIB))
        (folder / "memory.stat").write_text(f"inactive_file 0\ntotal_inactive_file {30 * MIB}\n")
        assert group_memory(tmp_path / "cgroup", own) == said


def test_runs_are_given_of_the_groups_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a run can be carried is asked of the smaller of machine and group."""
    sampler = host.HostSampler(tmp_path)
    whole = sampler.machine(gpu=False, gpu_count=None)
    monkeypatch.setattr(host, "group_memory", lambda: GroupMemory(300 * MIB, 200 * MIB))
    machine = sampler.machine(gpu=False, gpu_count=None, claimed_bytes=50 * MIB)
    assert (machine.ram_total, machine.ram_free) == (300 * MIB, 150 * MIB)
    assert (whole.ram_total or 0) > 300 * MIB
    meters = sampler.sample("")
    assert (meters.ram_used, meters.ram_total) == (100 * MIB, 300 * MIB)


def test_doctor_says_the_limit_of_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what the machine has beside it, so that nobody wonders where the memory went."""
    monkeypatch.setattr(doctor, "group_memory", lambda: GroupMemory(300 * MIB, 200 * MIB))
    check = doctor._memory()
    assert check.level == "warn"
    assert "200M free of the 300M of this control group; the machine has" in check.detail


def test_a_quota_makes_the_cores_fewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tightest of all groups above, of both versions; one core at least, and no more than there are."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    mount, own = tmp_path / "cgroup", tmp_path / "own"
    assert usable_cores(mount, own) == 8
    (mount / "pod" / "box").mkdir(parents=True)
    own.write_text("0::/pod/box\n")
    (mount / "pod" / "box" / "cpu.max").write_text("max 100000\n")
    assert (group_cores(mount, own), usable_cores(mount, own)) == (None, 8)
    (mount / "pod" / "cpu.max").write_text("250000 100000\n")
    assert (group_cores(mount, own), usable_cores(mount, own)) == (2.5, 2)
    (mount / "pod" / "box" / "cpu.max").write_text("50000 100000\n")
    assert (group_cores(mount, own), usable_cores(mount, own)) == (0.5, 1)
    folder = mount / "cpu,cpuacct" / "docker"
    folder.mkdir(parents=True)
    own.write_text("3:cpu,cpuacct:/docker\n2:cpuset:/\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    for said, cores in (("-1\n", 8), ("300000\n", 3), ("1600000\n", 8)):
        (folder / "cpu.cfs_quota_us").write_text(said)
        assert usable_cores(mount, own) == cores


def test_what_runs_are_given_of_the_quota_is_no_meter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions know one core; how busy the machine is, is said of all that it has."""
    monkeypatch.setattr(host, "usable_cores", lambda: 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    sampler = host.HostSampler(tmp_path)
    assert (sampler.machine(gpu=False, gpu_count=None).cores, sampler.sample("").cores) == (1, 3)
    monkeypatch.setattr(doctor, "group_cores", lambda: 1.5)
    monkeypatch.setattr(doctor, "usable_cores", lambda: 1)
    check = doctor._cores()
    assert (check.level, check.detail.partition(" usable")[0]) == ("warn", "a quota of 1.5 of the 3")
