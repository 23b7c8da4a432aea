"""`service`: a unit that systemd can read and that ends no run, and calm words where there is no systemd."""

from __future__ import annotations

import getpass
import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from mission_tui import paths
from mission_tui.cli.root import main
from mission_tui.cli.verbs import supervisor
from mission_tui.cli.verbs.supervisor import UnitFile, command_of
from mission_tui.errors import UsageError
from tests.cli.test_json_documents import check

SYSTEMCTL = """#!/bin/sh
echo "$@" >>"$SAID"
case "$2" in
  enable) mkdir -p "$HOME/.config/systemd/user/default.target.wants"
          ln -sf "$HOME/.config/systemd/user/$4" "$HOME/.config/systemd/user/default.target.wants/$4" ;;
  is-active) echo inactive; exit 3 ;;
  daemon-reload) test -z "$NO_BUS" || { echo 'Failed to connect to bus: No medium found' >&2; exit 1; } ;;
esac
"""


@dataclass(frozen=True)
class Machine:
    """A home, a runs root, and a systemd that only writes down what it is told."""

    home: Path
    root: Path
    lingers: Path
    said: Path

    @property
    def unit(self) -> UnitFile:
        return UnitFile.of(self.root, {"HOME": str(self.home)})

    def calls(self) -> list[str]:
        return self.said.read_text().splitlines() if self.said.exists() else []


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine that systemd has booted, in which this user does not linger."""
    made = Machine(tmp_path / "home", tmp_path / "home" / "my runs", tmp_path / "linger", tmp_path / "said")
    (tmp_path / "bin").mkdir()
    made.home.mkdir()
    made.lingers.mkdir()
    program = tmp_path / "bin" / "systemctl"
    program.write_text(SYSTEMCTL)
    program.chmod(0o755)
    monkeypatch.setattr(supervisor, "BOOTED", tmp_path)
    monkeypatch.setattr(paths, "LINGER", made.lingers)
    for name in ("XDG_CONFIG_HOME", "NO_BUS"):
        monkeypatch.delenv(name, raising=False)
    environ = {"HOME": str(made.home), "MISSION_TUI_RUNS": str(made.root), "SAID": str(made.said)}
    environ |= {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "WANDB_API_KEY": "very-secret"}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return made


def document(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    """What the verb prints with `--json`."""
    capsys.readouterr()
    assert main(["service", *words, "--json"]) == code
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    check(f"service {words[0]}", facts)
    return facts


def read_unit(text: str) -> dict[str, list[tuple[str, str]]]:
    """Sections with their lines in order; a section or line that is none fails."""
    sections: dict[str, list[tuple[str, str]]] = {}
    here: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("["):
            here = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            name, sign, value = line.partition("=")
            assert sign, line
            here.append((name, value))
    return sections


def test_the_unit_starts_this_interpreter_and_ends_no_run(machine: Machine) -> None:
    """Absolute paths, an end that reaches the supervisor alone, a restart after a crash, no secret, no expansion."""
    odd = UnitFile(machine.unit.folder, machine.home / 'a "b" 50% $HOME')
    environ = {"PATH": "/bin", "WANDB_API_KEY": "very-secret", "CUDA_VISIBLE_DEVICES": "0", "CUDA_TOKEN": "t0ken"}
    text = odd.text(environ)
    unit = read_unit(text)
    (start,) = (value for name, value in unit["Service"] if name == "ExecStart")
    assert "$$HOME" in start
    plain = shlex.split(start.replace("%%", "%").replace("$$", "$"))
    assert plain == list(command_of(odd.root)) == [
        sys.executable, "-P", "-m", "mission_tui.supervisor", "--runs-dir", str(odd.root)
    ]  # fmt: skip
    assert Path(plain[0]).is_absolute()
    service_lines = dict(unit["Service"])
    assert (service_lines["KillMode"], service_lines["Restart"]) == ("process", "on-failure")
    assert service_lines["OOMPolicy"] == "continue"
    assert dict(unit["Unit"])["ConditionPathExists"] == f"{machine.lingers}/%u"
    assert dict(unit["Install"]) == {"WantedBy": "default.target"}
    assert '"CUDA_VISIBLE_DEVICES=0"' in text
    assert "secret" not in text
    assert "t0ken" not in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_itself_finds_nothing_wrong_with_it(machine: Machine) -> None:
    """`systemd-analyze verify` says nothing, for a root with blanks, quotes and signs that systemd would expand."""
    machine.unit.folder.mkdir(parents=True)
    odd = UnitFile(machine.unit.folder, machine.home / 'a "b" 50% $HOME')
    odd.path.write_text(odd.text(os.environ))
    with TemporaryDirectory(prefix="xdg-") as runtime:  # a short one: it also looks at the sockets of other units
        done = subprocess.run(
            ["systemd-analyze", "verify", "--user", str(odd.path)],
            env=dict(os.environ) | {"XDG_RUNTIME_DIR": runtime},
            capture_output=True,
            text=True,
            timeout=20,
        )
    if "Failed to initialize manager" in done.stderr:
        pytest.skip("systemd-analyze cannot work here: " + done.stderr.strip())
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_install_writes_the_unit_and_says_what_to_type(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is told to systemd without `--now`; lingering is explained while it is off; again changes nothing."""
    assert main(["service", "install"]) == 0
    told = capsys.readouterr().out
    assert f"wrote: {machine.unit.path}" in told
    for words in ("loginctl enable-linger", "systemctl --user daemon-reload", f"enable --now {machine.unit.name}"):
        assert words in told
    assert "end at your last logout" in told
    assert [call for call in machine.calls() if "is-active" not in call] == []
    written = machine.unit.path.stat().st_mtime_ns
    assert main(["service", "install"]) == 0
    assert "unchanged" in capsys.readouterr().out
    assert machine.unit.path.stat().st_mtime_ns == written


def test_with_now_systemd_is_told(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """Reloaded, enabled and started; what is left is to linger, and then the status is 0."""
    facts = document(capsys, "install", "--now")
    assert machine.calls()[:2] == ["--user daemon-reload", f"--user enable --now {machine.unit.name}"]
    assert facts["todo"] == ["loginctl enable-linger"]
    assert (facts["enabled"], facts["ready"]) == (True, False)
    assert document(capsys, "status", code=69)["todo"] == ["loginctl enable-linger"]
    (machine.lingers / getpass.getuser()).touch()
    ready = document(capsys, "status")
    assert (ready["ready"], ready["active"], ready["todo"]) == (True, "inactive", [])


def test_systemd_that_cannot_be_reached_is_an_error_with_its_words(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unit is written, and what failed is one line."""
    monkeypatch.setenv("NO_BUS", "1")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert main(["service", "install", "--now"]) == 1
    assert "Failed to connect to bus: No medium found; without a login set XDG_RUNTIME_DIR" in capsys.readouterr().err
    assert machine.unit.path.exists()


def test_a_unit_of_somebody_else_is_left_alone(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither written over nor removed, and a link is not followed."""
    machine.unit.folder.mkdir(parents=True)
    machine.unit.path.write_text("[Service]\nExecStart=/bin/true\n")
    for verb in ("install", "uninstall", "status"):
        assert main(["service", verb]) == 2
        assert "was not written by mission-tui" in capsys.readouterr().err
    assert machine.unit.path.read_text() == "[Service]\nExecStart=/bin/true\n"
    elsewhere = machine.home / "elsewhere"
    elsewhere.write_text(machine.unit.text({}))
    machine.unit.path.unlink()
    machine.unit.path.symlink_to(elsewhere)
    with pytest.raises(UsageError, match="left alone"):
        machine.unit.written()


def test_uninstall_takes_back_what_install_did(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """The unit and its link at boot; a second time there is nothing, which is no error."""
    document(capsys, "install", "--now")
    facts = document(capsys, "uninstall", "--now")
    assert (facts["installed"], facts["enabled"], facts["todo"]) == (False, False, [])
    assert not machine.unit.path.exists()
    assert not machine.unit.wanted.is_symlink()
    assert machine.calls()[-1] == "--user daemon-reload"
    assert main(["service", "uninstall"]) == 0
    assert "there is no" in capsys.readouterr().out


def test_without_systemd_it_says_what_does_the_same(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence, a line for cron that a shell can read, exit code 69, and nothing written."""
    monkeypatch.setattr(supervisor, "BOOTED", machine.home / "absent")
    for verb in ("install", "status", "uninstall"):
        assert main(["service", verb]) == 69
        told = capsys.readouterr()
        assert told.err.startswith("mission-tui: there is no systemd here (a container, or another init), so ")
        line = told.out.splitlines()[-1]
        assert line.startswith("@reboot ")
        words = shlex.split(line.removeprefix("@reboot "))
        assert words[-4:-2] == ["--runs-dir", str(machine.root)]
        assert words[-2] == f">>{machine.root / '.supervisor' / 'supervisor.log'}"
    assert not machine.unit.folder.exists()
    assert document(capsys, "status", code=69)["cron"].startswith("@reboot ")
