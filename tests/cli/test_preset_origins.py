"""`./presets` of a repository that somebody cloned: shown, never started by accident, and named before it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mission_tui.cli.plan import LaunchArguments, planned
from mission_tui.cli.root import main
from mission_tui.cli.screen import _choices, _specs
from mission_tui.cli.session import Session
from mission_tui.errors import PresetError, UsageError
from mission_tui.records.preset_files import find_presets, load_preset, preset_on_key
from mission_tui.tui.state.presets import by_key, members
from tests.shell import Shell

CANARY = """
from pathlib import Path
(Path(__file__).parent / "ran").touch()
"""
OWN = """
description = "of the repository"
key = "1"
[env]
id = "canary:Mine-v0"
imports = ["canary"]
wrappers = ["canary:Wrapper"]
[ppo]
policy = "canary:Policy"
[run]
total_timesteps = 5000
python = "./python"
pythonpath = ["."]
callbacks = ["canary:Callback"]
env_file = "secrets.env"
[keep.health]
on_event = "touch ran"
"""
COMMAND = '[run]\ncommand = ["touch", "ran"]\n'


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cloned repository as the working folder: it takes the names `cartpole`, `wide`, `heavy` and the key `1`."""
    folder = tmp_path / "clone"
    (folder / "presets").mkdir(parents=True)
    (folder / "canary.py").write_text(CANARY)
    (folder / "python").write_text("#!/bin/sh\ntouch ran\n")
    (folder / "python").chmod(0o755)
    (folder / "presets" / "cartpole.toml").write_text(OWN)
    (folder / "presets" / "plain.toml").write_text(
        'key = "7"\n[env]\nid = "CartPole-v1"\n[run]\ntotal_timesteps = 5000\n'
    )
    for name in ("wide", "heavy"):
        (folder / "presets" / f"{name}.toml").write_text(COMMAND)
    (folder / "presets" / "all.toml").write_text('key = "P"\nlaunch = ["wide", "cartpole"]\n')
    own = tmp_path / ".config" / "mission-tui" / "presets"
    own.mkdir(parents=True)
    (own / "calm.toml").write_text('extends = "heavy"\n[ppo]\nn_epochs = 5\n')
    for name in ("MISSION_TUI_RUNS", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(folder)
    return folder


def document(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert main([*words, "--json"]) in (0, None)
    return json.loads(capsys.readouterr().out)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(list(words)) in (0, None)
    return capsys.readouterr().err


@pytest.mark.slow
def test_looking_imports_and_runs_nothing(clone: Path) -> None:
    """Listing, showing, completing, pricing and what the screen asks for: the canary stays silent."""
    program = (
        "from pathlib import Path\n"
        "from mission_tui.cli.root import main\n"
        "from mission_tui.cli.screen import _choices, _specs\n"
        "from mission_tui.cli.session import Session\n"
        "for words in (['presets'], ['presets', '--json'], ['presets', 'show', 'cartpole'], ['paths'],\n"
        "              ['presets', 'show', 'cartpole', '--resolved'], ['launch', 'cartpole', 'all', '--dry-run']):\n"
        "    main(words)\n"
        "session = Session.begin(None)\n"
        "for choice in _choices(session):\n"
        "    if choice.error is None: _specs(session, choice.ref, ())\n"
    )
    environ = dict(os.environ) | {"PYTHONPATH": os.pathsep.join([str(clone), *sys.path])}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    words = {"_MISSION_TUI_COMPLETE": "bash_complete", "COMP_WORDS": "mission-tui launch car", "COMP_CWORD": "2"}
    completed = subprocess.run(
        [sys.executable, "-m", "mission_tui"], env=environ | words, capture_output=True, text=True, check=False
    )
    assert "cartpole" in completed.stdout
    assert not (clone / "ran").exists()
    assert not (clone / "runs").exists()


def test_a_name_that_is_taken_is_said_before_it_runs(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which file it is, how the other one is named, and every piece of its own code."""
    err = said(capsys, "launch", "cartpole", "--dry-run")
    assert "cartpole is ./presets/cartpole.toml in this folder, not the shipped one; write shipped:cartpole" in err
    named = err.partition("preset cartpole comes from ./presets/cartpole.toml and names its own code: ")[2]
    for words in (
        "python ./python", "pythonpath .", "env file secrets.env", "imports canary", "environment canary:Mine-v0",
        "wrapper canary:Wrapper", "policy canary:Policy", "callback canary:Callback", "on_event touch ran",
    ):  # fmt: skip
        assert words in named
    assert "note:" not in said(capsys, "launch", "shipped:cartpole", "calm", "demo", "--dry-run")
    assert "note:" not in said(capsys, "launch", "plain", "--dry-run")
    assert str(clone) in document(capsys, "presets", "show", "cartpole")["path"]
    assert "comes from ./presets/cartpole.toml" in said(capsys, "presets", "show", "cartpole")
    assert "comes from" in said(capsys, "launch", "--preset", "presets/cartpole.toml", "--dry-run")


def test_documents_hold_the_own_code(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each preset says whose it is; a launch lists what presets of the folder name."""
    listed = {it["name"]: it for it in document(capsys, "presets")["presets"]}
    assert {name: it["origin"] for name, it in listed.items() if name in ("plain", "demo")} == {
        "plain": "here",
        "demo": "shipped",
    }
    dry = document(capsys, "launch", "cartpole", "shipped:cartpole", "--dry-run")
    assert {code["path"] for code in dry["own_code"]} == {str(clone / "presets" / "cartpole.toml")}
    (hook,) = [code for code in dry["own_code"] if code["kind"] == "on_event"]
    assert (hook["preset"], hook["key"], hook["value"]) == ("cartpole", "keep.health.on_event", "touch ran")
    assert document(capsys, "launch", "demo", "--dry-run")["own_code"] == []


def test_shipped_sets_and_bases_mean_shipped_presets(clone: Path) -> None:
    """`trio` and what extends `heavy` among the user's own are not led astray by names that the folder took."""
    assert clone.is_dir()
    session = Session.begin(None)
    for word in ("trio", "calm", "shipped:wide"):
        plan = planned(LaunchArguments((word,)), session.preset_dirs)
        assert all(item.spec.run.command is None for item in plan.items)
        assert plan.foreign == ()
    (own,) = planned(LaunchArguments(("wide",)), session.preset_dirs).items
    assert own.spec.run.command == ("touch", "ran")
    with pytest.raises(UsageError, match="no preset 'yours:cartpole'"):
        planned(LaunchArguments(("yours:cartpole",)), session.preset_dirs)


def test_keys_mean_the_users_own_and_shipped_presets_first(clone: Path) -> None:
    """On the screen `1` is demo, and `P` the shipped set; what only the folder carries is marked as asking."""
    session = Session.begin(None)
    carried = by_key(_choices(session))
    assert {key: (it.name, it.from_folder) for key, it in carried.items() if key in "17P"} == {
        "1": ("demo", ""),
        "7": ("plain", "./presets/plain.toml"),
        "P": ("trio", ""),
    }
    assert members(carried["P"]) == ("shipped:large-batch", "shipped:wide", "shipped:deep")
    presets, _ = find_presets(session.preset_dirs)
    assert {key: preset_on_key(key, presets) for key in "1P"} == {"1": presets["demo"], "P": presets["trio"]}
    # A file that comes while the screen is open takes no key either.
    (clone / "presets" / "demo.toml").write_text(COMMAND)
    (spec,) = _specs(session, members(carried["1"])[0], ())
    assert spec.run.command is None


def test_the_checkout_itself_is_the_shipped_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever works on this project has its presets in `./presets`, and its keys start."""
    monkeypatch.chdir(Path(__file__).parents[2])
    found, _ = find_presets(Session.begin(None).preset_dirs)
    assert {preset.origin for preset in found.values()} <= {"shipped", "yours"}
    assert not [name for name in found if ":" in name]


def test_a_preset_file_is_opened_safely(clone: Path, tmp_path: Path) -> None:
    """A pipe does not hang, a link out of the repository is refused by name, one inside is followed."""
    os.mkfifo(clone / "presets" / "pipe.toml")
    secret = tmp_path / "secret.toml"
    secret.write_text('description = "not theirs"\n[env]\nid = "CartPole-v1"\n')
    (clone / "presets" / "link.toml").symlink_to(secret)
    (clone / "presets" / "inner.toml").symlink_to("plain.toml")
    (clone / "presets" / "device.toml").symlink_to("/dev/zero")
    (clone / "presets" / "huge.toml").write_bytes(b"# " + b"x" * (2 << 20))
    dirs = Session.begin(None).preset_dirs
    found, broken = find_presets(dirs)
    assert {"pipe", "link", "device", "huge"} <= set(broken)
    assert "leads out of" in str(broken["link"])
    assert "inner" in found
    with pytest.raises(PresetError, match="leads out of"):
        load_preset("link", dirs)
    assert load_preset(str(secret), dirs).description == "not theirs"


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_launch_says_it_on_stderr_and_in_its_document(quick: Shell) -> None:
    """Before the run begins, and with the runs that were started."""
    (quick.cwd / "presets" / "theirs.toml").write_text(COMMAND)
    done = quick.typed("launch", "theirs", "--json", "--wait")
    assert "preset theirs comes from ./presets/theirs.toml and names its own code: command touch ran" in done.stderr
    (code,) = json.loads(done.stdout)["own_code"]
    assert (code["kind"], code["value"]) == ("command", "touch ran")
    assert (quick.cwd / "ran").exists()
    assert quick.json("launch", "tiny")["own_code"] == []
