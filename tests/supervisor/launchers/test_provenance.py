"""Provenance over a real socket: recorded beside each attempt, and held against what is there at a resume."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from mission_tui.fleet.events.provenance import Provenance, upgraded
from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.ipc.replies import Accepted, DetailsReply, Launched, UpgradesReply, VerdictReply
from mission_tui.ipc.requests import GetDetails, GetUpgrades, Launch, Resume
from mission_tui.supervisor.launchers import provenance_probe
from tests.foreign_venv import make_venv
from tests.supervisor.conftest import REPOSITORY, Lab, stub_spec
from tests.supervisor.lifecycle.test_command import a_command
from tests.waiting import until


def git(folder: Path, *words: str) -> str:
    """What git says in `folder`, whoever runs the tests."""
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(folder), *who, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A working folder under git with one commit and one changed line."""
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "train.py").write_text("rate = 1\n", encoding="ascii")
    git(folder, "add", "train.py")
    git(folder, "commit", "-qm", "first")
    (folder / "train.py").write_text("rate = 2\n", encoding="ascii")
    return folder


def launch(lab: Lab, cwd: Path, environ: dict[str, str] | None = None) -> str:
    """A run launched from `cwd` that has ended."""
    environ = {"PATH": lab.environ["PATH"], "PYTHONPATH": str(REPOSITORY)} | (environ or {})
    item = LaunchItem(spec=stub_spec())
    reply = lab.ask(lambda id_: Launch(id=id_, items=(item,), cwd=str(cwd), python=sys.executable, environ=environ))
    assert isinstance(reply, Launched)
    run = reply.runs[0].id
    lab.running(run)
    lab.act("stop", run)
    lab.ended(run)
    return run


def recorded(lab: Lab, run: str, attempt: int = 1) -> dict[str, Any]:
    """What is recorded of the attempt, once it is."""
    path = lab.dir(run).attempt(attempt).provenance
    until(path.is_file, 15, "the provenance is recorded")
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


def resume(lab: Lab, run: str, cwd: Path, *, check_only: bool = False) -> Accepted | VerdictReply:
    environ = {"PATH": lab.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    reply = lab.ask(
        lambda id_: Resume(id=id_, run=run, cwd=str(cwd), python=sys.executable, environ=environ, check_only=check_only)
    )
    assert isinstance(reply, Accepted | VerdictReply)
    return reply


@pytest.mark.slow
def test_commit_changes_packages_and_machine_are_recorded(lab: Lab, work: Path) -> None:
    """Beside the attempt, for its owner's eyes; the changes can be applied again."""
    run = launch(lab, work, {"MISSION_TUI_COMMAND": "mission-tui launch stub"})
    found = recorded(lab, run)
    assert found["command"] == "mission-tui launch stub"
    (tree,) = [it for it in found["repositories"] if it["name"] == ""]
    assert (tree["commit"], tree["changed"]) == (git(work, "rev-parse", "HEAD"), 1)
    diff = lab.dir(run).attempt(1).path / tree["diff_file"]
    assert "+rate = 2" in diff.read_text(encoding="utf-8")
    git(work, "checkout", "-q", "train.py")
    git(work, "apply", str(diff))
    assert (work / "train.py").read_text(encoding="ascii") == "rate = 2\n"
    assert found["packages"]["msgspec"]
    assert found["machine"]["cores"] == str(len(os.sched_getaffinity(0)))
    for path in (diff, lab.dir(run).attempt(1).provenance):
        assert path.stat().st_mode & 0o777 == 0o600
    reply = lab.ask(lambda id_: GetDetails(id=id_, run=run))
    assert isinstance(reply, DetailsReply)
    assert reply.provenance is not None
    assert reply.provenance.cwd == str(work)


@pytest.mark.slow
def test_a_resume_names_what_is_no_longer_the_same(lab: Lab, work: Path) -> None:
    """Nothing while it is the same; a note that needs no acceptance when it is not; and the new attempt has its own."""
    run = launch(lab, work)
    recorded(lab, run)
    same = resume(lab, run, work, check_only=True)
    assert isinstance(same, VerdictReply)
    assert same.verdict.changes == ()
    git(work, "commit", "-qam", "second")
    # What was seen is believed for five seconds, by which the next look is a fresh one.
    until(lambda: getattr(resume(lab, run, work, check_only=True), "verdict").changes, 15)  # noqa: B009
    reply = resume(lab, run, work)
    assert isinstance(reply, Accepted)
    (note,) = (note for note in reply.notes if note.startswith("code: "))
    assert "+1 -> " in note
    lab.running(run)
    assert recorded(lab, run, 2)["repositories"][0]["commit"] == git(work, "rev-parse", "HEAD")


def upgrades(lab: Lab) -> UpgradesReply:
    reply = lab.ask(lambda id_: GetUpgrades(id=id_))
    assert isinstance(reply, UpgradesReply)
    return reply


@pytest.mark.slow
def test_a_package_that_was_changed_under_a_live_run_is_named(lab: Lab, work: Path, tmp_path: Path) -> None:
    """By name and versions, for as long as the run lives; the working folder may be edited meanwhile."""
    packages = tmp_path / "packages"
    metadata = packages / "sb4-1.0.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: sb4\nVersion: 1.0.0\n", encoding="ascii")
    environ = {"PATH": lab.environ["PATH"], "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{packages}"}
    item = LaunchItem(spec=stub_spec(), name="upgraded")
    lab.ask(lambda id_: Launch(id=id_, items=(item,), cwd=str(work), python=sys.executable, environ=environ))
    (view,) = lab.snapshot().runs
    recorded(lab, view.id)
    until(lambda: upgrades(lab).looked == 1, 15, "the run was looked at")
    assert upgrades(lab).upgrades == ()
    (work / "train.py").write_text("rate = 3\n", encoding="ascii")
    metadata.rename(packages / "sb4-1.1.0.dist-info")
    # What was seen is believed for five seconds, by which the next look is a fresh one.
    until(lambda: upgrades(lab).upgrades, 15, "the change is seen")
    (one,) = upgrades(lab).upgrades
    assert one.name == "upgraded"
    assert [(change.name, change.was, change.now) for change in one.changes] == [("packages", "sb4 1.0.0", "sb4 1.1.0")]
    lab.act("kill", view.id)
    lab.ended(view.id)
    assert upgrades(lab) == UpgradesReply(re=1, upgrades=(), looked=0)


@pytest.mark.slow
def test_where_nothing_can_be_found_out_nothing_is_missed(lab: Lab, tmp_path: Path) -> None:
    """No git on the path: the run trains, packages are recorded, and a resume says nothing of code."""
    run = launch(lab, tmp_path, {"PATH": str(tmp_path)})
    assert recorded(lab, run)["repositories"] == []


def test_the_probe_writes_nothing_and_needs_nothing_of_ours(work: Path) -> None:
    """Run by its path with an isolated interpreter: the index keeps its time, and no lock is left."""
    index = work / ".git" / "index"
    before = index.stat().st_mtime_ns
    done = subprocess.run(
        [sys.executable, "-I", provenance_probe.__file__], cwd=work, capture_output=True, check=True, timeout=50
    )
    said = json.loads(done.stdout)
    assert said["provenance"]["repositories"][0]["path"] == str(work)
    assert "+rate = 2" in said["diffs"]["working-folder.diff"]
    assert index.stat().st_mtime_ns == before


def probed(folder: Path) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The repositories that the probe finds in `folder`, and their changes by file name."""
    words = [sys.executable, "-P", provenance_probe.__file__]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    repositories = [it for it in said["provenance"]["repositories"] if Path(it["path"]) != REPOSITORY]
    return repositories, {it["diff_file"]: said["diffs"][it["diff_file"]] for it in repositories if it["diff_file"]}


def test_the_tree_that_comes_first_on_the_path_counts_not_the_installed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a package that is installed editable: a second working tree of it on PYTHONPATH is what a run imports."""
    installed, second, site = tmp_path / "installed", tmp_path / "second", tmp_path / "site"
    for folder in (installed / "src" / "my_task", second / "my_task", site / "my_task-1.0.dist-info"):
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
    said = {"url": installed.as_uri(), "dir_info": {"editable": True}}
    (site / "my_task-1.0.dist-info" / "direct_url.json").write_text(json.dumps(said), encoding="utf-8")
    for first, counts in ((installed / "src", installed), (second, second / "my_task"), (tmp_path, installed)):
        monkeypatch.setattr(sys, "path", [str(first), str(site)])
        assert provenance_probe._packages()[1] == [("my_task", str(counts))]


def test_settings_of_a_repository_start_nothing(work: Path, tmp_path: Path) -> None:
    """Filters, monitors and drivers that came with somebody's folder, or with its submodule, and a remote that is asked
    for what a partial clone lacks: changes are recorded, and no command is carried out.
    """
    started = tmp_path / "started"
    (work / "inner").mkdir()
    git(work / "inner", "init", "-q")
    (work / "inner" / "data.txt").write_text("one\n", encoding="ascii")
    git(work / "inner", "add", "data.txt")
    git(work / "inner", "commit", "-qm", "inner")
    (work / ".gitmodules").write_text('[submodule "inner"]\npath = inner\nurl = elsewhere\n', encoding="ascii")
    git(work, "add", "inner", ".gitmodules")
    git(work, "commit", "-qam", "second")
    (work / "inner" / "data.txt").write_text("two\n", encoding="ascii")
    (work / "train.py").write_text("rate = 3\n", encoding="ascii")
    for folder in (work, work / "inner"):
        (folder / ".git" / "info" / "attributes").write_text(
            "* filter=one diff=one\n*.txt filter=two\n", encoding="ascii"
        )
        for key in (
            "filter.one.process", "filter.two.clean", "core.fsmonitor", "core.pager", "diff.external",
            "diff.one.textconv", "diff.one.command", "core.sshCommand", "remote.origin.uploadpack",
        ):  # fmt: skip
            git(folder, "config", key, f"sh -c 'echo {key} >> {started}; cat'")
    repositories, diffs = probed(work)
    assert not started.exists(), started.read_text()
    assert [(it["name"], it["changed"]) for it in repositories] == [("", 1), ("inner", 1)]
    assert "+rate = 3" in diffs["working-folder.diff"]
    assert "+two" in diffs["inner.diff"]
    git(work, "config", "extensions.partialClone", "origin")
    git(work, "config", "remote.origin.promisor", "true")
    git(work, "config", "remote.origin.url", str(work / "inner"))
    blob = git(work, "rev-parse", "HEAD:train.py")
    (work / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    probed(work)
    assert not started.exists(), started.read_text()


def test_hooks_of_a_repository_start_nothing(work: Path, tmp_path: Path) -> None:
    """`git diff` writes the index of a folder anew, and calls no hook that lies in it or that its settings name."""
    started = tmp_path / "started"
    git(work, "commit", "-qam", "all that changed")
    git(work, "config", "hook.mine.event", "post-index-change")
    git(work, "config", "hook.mine.command", f"touch {started}")
    for folder in (work / ".git" / "hooks", tmp_path / "elsewhere"):
        folder.mkdir(exist_ok=True)
        (folder / "post-index-change").write_text(f"#!/bin/sh\ntouch {started}\n", encoding="ascii")
        (folder / "post-index-change").chmod(0o755)
        os.utime(work / "train.py", (1e9, 1e9))
        probed(work)
        assert not started.exists()
        git(work, "config", "core.hooksPath", str(tmp_path / "elsewhere"))


def test_a_repository_names_no_other_folder(work: Path, tmp_path: Path) -> None:
    """One whose settings say that its working tree is the home folder is not asked what has changed there."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "train.py").write_text("secret = 1\n", encoding="ascii")
    git(work, "config", "core.worktree", str(tmp_path / "private"))
    assert probed(work) == ([], {})
    git(work, "config", "--unset", "core.worktree")
    assert len(probed(work)[0]) == 1


def test_large_changes_are_cut_and_their_digest_is_of_all(work: Path) -> None:
    """A working tree with megabytes of changes fills neither the run directory nor the memory."""
    (work / "train.py").write_text("x = 1\n" * 1_000_000, encoding="ascii")
    tracemalloc.start()
    try:
        (tree,), diffs = provenance_probe._repositories([("", str(work))])
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    whole = subprocess.run(["git", "diff", "HEAD"], cwd=work, capture_output=True, check=True).stdout
    assert tree["diff_bytes"] == len(whole) > 6_000_000
    assert tree["diff_sha256"] == hashlib.sha256(whole).hexdigest()
    assert diffs == {tree["diff_file"]: whole[: provenance_probe.DIFF_BYTES].decode()}
    assert peak_bytes < 3 << 20


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """The Python of a venv in which one package is installed, which is none of ours."""
    folder = tmp_path / "other"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "sb4-1.0.0.dist-info").mkdir()
    (packages / "sb4-1.0.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: sb4\nVersion: 1.0.0\n", encoding="ascii"
    )
    return folder / "bin" / "python"


def test_a_command_is_recorded_with_the_python_that_its_script_runs_in(
    shared_lab: Lab, other: Path, tmp_path: Path
) -> None:
    """Not with ours: named as the program, or by the first line of a script, also as one that is on the PATH."""
    scripts = []
    for name, line in ("direct", f"#!{other}"), ("by-env", "#!/usr/bin/env -S python -u"):
        scripts.append(tmp_path / name)
        scripts[-1].write_text(f"{line}\nprint('done')\n", encoding="ascii")
        scripts[-1].chmod(0o755)
    path = f"{other.parent}{os.pathsep}{shared_lab.environ['PATH']}"
    for words in (str(other), "-c", "print('done')"), (str(scripts[0]),), (str(scripts[1]),):
        (run,) = shared_lab.launch(1, spec=a_command(*words), name=None, PATH=path, PYTHONPATH="")
        assert shared_lab.ended(run).outcome == "finished"
        found = recorded(shared_lab, run)
        assert (found["python"], found["packages"]) == (str(other), {"sb4": "1.0.0"})


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_resume_compares_the_python_of_the_run_not_of_the_shell(lab: Lab, tmp_path: Path) -> None:
    """Of a run with `run.python` nothing has changed, whatever Python the client that asks has."""
    python = make_venv(tmp_path / "venv", without=("mission_tui",))
    spec = stub_spec()
    run_spec = structs.replace(spec.run, python=str(python))
    (run,) = lab.launch(spec=structs.replace(spec, run=run_spec))
    lab.running(run)
    assert recorded(lab, run)["python"] == str(python)
    lab.act("stop", run)
    lab.ended(run)
    same = resume(lab, run, lab.root, check_only=True)
    assert isinstance(same, VerdictReply)
    assert same.verdict.changes == ()


def test_what_runs_in_no_python_is_recorded_with_that_of_its_shell(shared_lab: Lab) -> None:
    """A shell script may start any; nothing is guessed."""
    (run,) = shared_lab.launch(spec=a_command("/bin/sh", "-c", "echo done"))
    shared_lab.ended(run)
    assert recorded(shared_lab, run)["python"] == sys.executable


def test_a_python_that_an_earlier_version_did_not_record_is_no_upgrade() -> None:
    """It recorded its own for every command: packages of two Pythons say nothing of an upgrade."""
    ours = Provenance(t=0.0, cwd="/", python="/ours/python", python_version="3.11.7", packages={"msgspec": "0.19"})
    theirs = structs.replace(ours, python="/theirs/python", packages={"sb4": "1.0.0"})
    assert upgraded(ours, theirs) == ()
    assert upgraded(ours, structs.replace(ours, packages={"msgspec": "0.20"})) != ()
