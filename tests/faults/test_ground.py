"""What a runs root stands on (rows D8 and D9): file systems without locks, and folders that others may write in."""

from __future__ import annotations

import errno
import fcntl
import grp
import os
import pwd
import shutil
from pathlib import Path

import pytest

from mission_tui.errors import MissionError, UsageError
from mission_tui.paths import socket_dir
from mission_tui.records.runs_roots import SHARED, check_locks, check_private, file_system
from tests.supervisor.conftest import Lab
from tests.waiting import until

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
tmpfs /home/ada/scratch tmpfs rw 0 0
sshfs /mnt/my\\040lab fuse.sshfs rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [("/home/bob/runs", "nfs4"), ("/home/ada/scratch/runs", "tmpfs"), ("/mnt/my lab/x", "fuse.sshfs"), ("/x", "ext4")],
)
def test_d8_the_file_system_of_a_folder_is_known(folder: str, kind: str, tmp_path: Path) -> None:
    """The longest mount point above it decides, also with spaces in its name; shared ones are known as such."""
    (tmp_path / "mounts").write_text(MOUNTS, encoding="ascii")
    found, _ = file_system(Path(folder), tmp_path / "mounts")
    assert found == kind
    assert (kind.split(".")[0] in SHARED) == (kind in ("nfs4", "fuse.sshfs"))


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_d8_a_file_system_without_locks_is_refused(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence names the file system and what to do; the probe is gone."""

    def refuse(_fd: int, _how: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(UsageError, match=r"has no locks .*keep the runs root on a local disk"):
        check_locks(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_d8_locks_that_are_only_pretended_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that two holders get keeps nobody apart; a real one passes."""
    check_locks(tmp_path)
    monkeypatch.setattr(fcntl, "flock", lambda _fd, _how: None)
    with pytest.raises(UsageError, match="lets two processes hold the same lock"):
        check_locks(tmp_path)


def test_d8_sockets_do_not_lie_in_the_runs_root() -> None:
    """Wherever runs are kept, their sockets are in a local folder of ours."""
    assert socket_dir(Path("/net/lab/runs")).parts[:2] == ("/", "tmp")


def test_d9_a_root_that_others_may_write_is_refused(tmp_path: Path) -> None:
    """For everybody and for a group of several, by name and with the remedy; a folder of our own is used."""
    root = tmp_path / "runs"
    check_private(root)
    root.mkdir(mode=0o755)
    check_private(root)
    root.chmod(0o757)
    with pytest.raises(UsageError, match=r"everybody may write in .*runs; `chmod o-w` it"):
        check_private(root)


def test_d9_a_group_of_several_may_not_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The private group that many systems give a user is that user; one with other members is others."""
    tmp_path.chmod(0o775)
    me, members = pwd.getpwuid(os.getuid()).pw_name, [pwd.getpwuid(os.getuid()).pw_name]
    own = pwd.struct_passwd((me, "x", os.getuid(), tmp_path.stat().st_gid, "", "/", "/bin/sh"))
    group = (me, "x", tmp_path.stat().st_gid, members)
    monkeypatch.setattr(pwd, "getpwuid", lambda _uid: own)
    monkeypatch.setattr(grp, "getgrgid", lambda _gid: grp.struct_group(group))
    check_private(tmp_path)
    members.append("bob")
    with pytest.raises(UsageError, match="`chmod g-w` it"):
        check_private(tmp_path)


def test_d9_a_root_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever owns the folder may put anything into it."""
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(UsageError, match="belongs to user"):
        check_private(tmp_path)


def test_d9_a_link_in_place_of_our_folder_is_refused_and_a_linked_root_is_one_root(tmp_path: Path) -> None:
    """`.supervisor` is never followed; a runs root behind a link is the root it leads to, with the same sockets."""
    (tmp_path / "real").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "real" / ".supervisor").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match=r"\.supervisor is not a folder"):
        check_private(tmp_path / "real")
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    assert socket_dir(tmp_path / "linked") == socket_dir(tmp_path / "real")


@pytest.mark.slow
def test_d9_a_root_opened_while_running_is_left_and_the_next_client_is_told(lab: Lab) -> None:
    """The supervisor leaves, the run goes on, a new supervisor says why it will not; closed again, all is as before."""
    (run,) = lab.launch()
    lab.running(run)
    lab.root.chmod(0o777)
    assert lab.supervisor is not None
    assert lab.supervisor.wait(10) == 0
    refused = lab.spawn()
    assert refused.wait(10) == 2
    assert "everybody may write" in (lab.root / ".supervisor" / "supervisor.log").read_text(encoding="utf-8")
    lab.root.chmod(0o755)
    lab.start()
    lab.running(run)


def test_d9_a_root_deleted_while_running_ends_its_supervisor(lab: Lab) -> None:
    """Nothing is made again behind a person's back, and the next client starts afresh."""
    supervisor = lab.supervisor
    assert supervisor is not None
    shutil.rmtree(lab.root)
    assert supervisor.wait(10) == 0
    until(lambda: not lab.answers(), 5, "nobody answers")
    assert not lab.root.exists()
    lab.root.mkdir()
    with pytest.raises(MissionError):
        lab.snapshot()
