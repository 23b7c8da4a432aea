"""`presets save`: a preset with changes becomes one of the user's own, and never writes over another unasked."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from mission_tui.cli.plan import LaunchArguments, planned, save_preset
from mission_tui.cli.root import main
from mission_tui.cli.session import Session
from mission_tui.errors import PresetError, UsageError
from mission_tui.fleet.specs.preset import Saving
from tests.cli.test_json_documents import check
from tests.shell import TINY, Shell


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own folder of presets, not there yet; the working folder has the presets `tiny` and `pair`."""
    near = tmp_path / "presets"
    near.mkdir()
    (near / "tiny.toml").write_text(TINY)
    (near / "more.toml").write_text('extends = "tiny"\n[ppo]\ngamma = 0.9\n')
    (near / "pair.toml").write_text('launch = ["tiny", "more"]\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "mission-tui" / "presets"


def save(source: str, name: str, *words: str, replace: bool = False) -> str:
    """What stands in the way; empty where it was written."""
    return save_preset(Session.begin(None), Saving(source, name, words), replace=replace).there


def test_a_saved_preset_launches_the_very_run(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`presets save` writes a file that says what base, preset and words say together; it is found by its name."""
    words = ("ppo.n_steps=128", "run.device=cpu", "keep.limits.priority=2")
    given = [word for each in words for word in ("--set", each)]
    assert main(["presets", "save", "more", "calm", *given, "--key", "7", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    check("presets save", said)
    assert said["path"] == str(mine / "calm.toml")
    dirs = Session.begin(None).preset_dirs
    (meant,) = planned(LaunchArguments(("more",), assignments=words), dirs).items
    (means,) = planned(LaunchArguments(("calm",)), dirs).items
    assert (means.spec.env, means.spec.ppo, means.spec.run, means.spec.keep) == (
        meant.spec.env,
        meant.spec.ppo,
        meant.spec.run,
        meant.spec.keep,
    )
    assert main(["presets", "--json"]) == 0
    listed = {each["name"]: each for each in json.loads(capsys.readouterr().out)["presets"]}
    assert listed["calm"]["key"] == "7"
    assert listed["calm"]["description"] == f"more with {', '.join(words)}"


def test_what_nobody_wrote_stays_unwritten(mine: Path) -> None:
    """Only what the base, the preset and the words write is in the file, so that nothing is taken for a wish."""
    assert save("more", "calm", "ppo.n_epochs=none") == ""
    table = tomllib.loads((mine / "calm.toml").read_text())
    assert table["ppo"] == {"n_steps": 64, "batch_size": 64, "gamma": 0.9}
    assert set(table) == {"description", "env", "ppo", "run"}


def test_nothing_is_written_over_unasked(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is there stays until --replace; one of a shipped preset's name would hide that, and says so."""
    assert save("tiny", "calm", "ppo.n_steps=128") == ""
    before = (mine / "calm.toml").read_bytes()
    assert main(["presets", "save", "tiny", "calm"]) == 2
    assert f"{mine / 'calm.toml'} is there already" in capsys.readouterr().err
    assert (mine / "calm.toml").read_bytes() == before
    assert main(["presets", "save", "tiny", "calm", "--replace"]) == 0
    assert (mine / "calm.toml").read_bytes() != before
    assert "it would hide the preset" in save("tiny", "heavy")
    assert not (mine / "heavy.toml").exists()


def test_what_is_no_preset_is_refused(mine: Path) -> None:
    """A sweep, a set, a name that a nearer folder has, a name that is none, a wrong setting: nothing is written."""
    with pytest.raises(UsageError, match="these values make 2"):
        save("tiny", "calm", "run.seed=1,2")
    with pytest.raises(PresetError, match="'pair' is a set"):
        save("pair", "calm")
    with pytest.raises(UsageError, match="would be used instead of it"):
        save("tiny", "more")
    for name in ("../calm", "", "c a l m", "x" * 65):
        with pytest.raises(PresetError, match="letters, digits"):
            save("tiny", name)
    with pytest.raises(PresetError, match="did you mean 'n_steps'"):
        save("tiny", "calm", "ppo.n_stps=3")
    assert not mine.exists()


def test_words_of_a_terminal_are_taken_as_utf_8_in_any_locale(shell: Shell) -> None:
    """Python's own UTF-8 mode is off here, as under many job schedulers; what is printed is JSON all the same."""
    shell.environ.update(LC_ALL="C", PYTHONUTF8="0")
    assert shell("presets", "save", "tiny", "calm", "--description", "gr\u00fcn \u2013 ruhig").returncode == 0
    shown = shell("presets", "--json").stdout
    assert shown.isascii()
    (calm,) = [it for it in json.loads(shown)["presets"] if it["name"] == "calm"]
    assert calm["description"] == "gr\u00fcn \u2013 ruhig"
