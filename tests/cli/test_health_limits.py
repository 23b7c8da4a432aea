"""Where the user's health.toml counts: every way in which a preset becomes a run, and the verbs that look after it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mission_tui.cli.root import main
from mission_tui.cli.screen import _specs
from mission_tui.cli.session import Session
from mission_tui.cli.verbs import doctor
from tests.shell import TINY, Shell


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's health.toml, in a folder with the preset `tiny`."""
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets" / "tiny.toml").write_text(TINY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "config" / "mission-tui" / "health.toml"
    path.parent.mkdir(parents=True)
    path.write_text("[stall]\nevery = 4\n")
    return path


def test_the_screen_resolves_presets_over_the_users_limits(own: Path) -> None:
    """The specs that the form and the digits launch hold them, and the profile that was chosen."""
    (spec,) = _specs(Session.begin(None), "tiny", ["ppo.clip_range=0.4"])
    assert (spec.keep.health.stall.every, spec.keep.health.profile) == (4, "wide-clip")


@pytest.mark.slow
def test_a_launch_freezes_the_limits(quick: Shell) -> None:
    """`spec.toml` of the run holds what differs: the user's limit, the word's, the profile."""
    own = quick.cwd / ".config" / "mission-tui" / "health.toml"
    own.write_text("[stall]\nevery = 4\n")
    (run,) = quick.launch("tiny", "--set", "keep.health.kl-persistent.act=stop")
    text = (quick.root / run / "spec.toml").read_text()
    assert 'profile = "default"' in text
    assert "[keep.health.stall]\nevery = 4\n" in text
    assert '[keep.health.kl-persistent]\nact = "stop"\n' in text
    quick.typed("kill", run)


def test_presets_show_says_what_is_in_force(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Resolved, the shipped swarm names its profile and the limits that differ from the defaults."""
    assert main(["presets", "show", "swarm", "--resolved", "--json"]) == 0
    health = json.loads(capsys.readouterr().out)["tables"]["keep"]["health"]
    assert health["profile"] == "large-batch"
    assert health["kl-persistent"]["warning"] == 3.0
    assert health["stall"]["every"] == 4


def test_doctor_and_paths_know_the_file(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`doctor` says which limits count and is not healthy with a file that every launch would refuse."""
    found = next(check for check in doctor.place_checks(Session.begin(None)) if check.name == "health limits")
    assert (found.level, found.detail) == ("ok", f"{own} over the defaults")
    own.write_text("[stall]\nevry = 4\n")
    found = next(check for check in doctor.place_checks(Session.begin(None)) if check.name == "health limits")
    assert found.level == "bad"
    assert found.detail == f"{own}: unknown key stall.evry; did you mean 'every'?"
    assert main(["presets", "show", "tiny", "--resolved"]) == 78
    own.unlink()
    found = next(check for check in doctor.place_checks(Session.begin(None)) if check.name == "health limits")
    assert (found.level, found.detail) == ("ok", "the defaults")
    capsys.readouterr()
    assert main(["paths"]) == 0
    assert f"{own} (absent)" in capsys.readouterr().out
