"""Names of other machines: the file that gives them, and the words with which ssh is called."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from mission_tui.errors import UsageError
from mission_tui.ipc.hosts import Host, host_called, known_hosts, ssh_command


def test_a_machine_is_an_address_or_a_table(tmp_path: Path) -> None:
    """What the table leaves out is as usual; without a file there are none."""
    file = tmp_path / "hosts.toml"
    assert known_hosts(file) == {}
    file.write_text('[hosts]\ngpu1 = "ada@gpu1"\ngpu2 = {command = "/opt/my env/mission-tui -x", runs_dir = "/data"}\n')
    assert known_hosts(file) == {
        "gpu1": Host("gpu1", "ada@gpu1"),
        "gpu2": Host("gpu2", "gpu2", ("/opt/my", "env/mission-tui", "-x"), "/data"),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hosts = 3", "hosts has to be a table"),
        ("[host]", "there is no key 'host'"),
        ("[hosts]\ngpu1 = 3", "hosts.gpu1 has to be an address"),
        ("[hosts]\ngpu1 = {comand = 'x'}", "no key 'comand'; did you mean 'command'?"),
        ("[hosts]\ngpu1 = {runs_dir = 3}", "hosts.gpu1.runs_dir has to be text"),
        ("[hosts]\ngpu1 = '-oProxyCommand=x'", "'-oProxyCommand=x' is no address"),
        ("[hosts]\nall = 'gpu1'", "a machine needs another name"),
        ("[hosts]\n'a:b' = 'gpu1'", "a machine needs another name"),
        ("[hosts]\ngpu1 = {command = '\"'}", "hosts.gpu1.command: No closing quotation"),
        ("hosts", "cannot be read"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    """Before anything is reached for."""
    file = tmp_path / "hosts.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"hosts\.toml") as error:
        known_hosts(file)
    assert said in str(error.value)


def test_ssh_gets_words_and_the_other_machine_a_line() -> None:
    """No word of ours is an option of ssh or a piece of shell there; no password is asked for."""
    host = Host("gpu2", "ada@gpu2", ("/opt/my env/mission-tui",), "/data")
    words = ssh_command(host, ["launch", "demo", "--set", "run.env.X=$(rm -rf ~)"], {"MISSION_TUI_SSH": "ssh -F 'a b'"})
    assert words[:3] == ["ssh", "-F", "a b"]
    assert "BatchMode=yes" in words
    assert words[-3:-1] == ["--", "ada@gpu2"]
    line = ["/opt/my env/mission-tui", "--runs-dir", "/data", "launch", "demo", "--set", "run.env.X=$(rm -rf ~)"]
    assert shlex.split(words[-1]) == line
    asked = ssh_command(host, ["--runs-dir", "/mine", "status"], {})
    assert shlex.split(asked[-1]) == ["/opt/my env/mission-tui", "--runs-dir", "/mine", "status"]


def test_a_name_that_nobody_gave_is_an_address() -> None:
    """But not one that ssh would take for an option."""
    assert host_called("ada@box", {}) == Host("ada@box", "ada@box")
    with pytest.raises(UsageError, match="no address"):
        host_called("-oProxyCommand=touch /tmp/x", {})
