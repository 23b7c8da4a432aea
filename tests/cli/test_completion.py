"""Completion in the shell, without starting anything."""

from __future__ import annotations

import pytest

from mission_tui.fleet.events.journal import RunCreated, RunRenamed
from mission_tui.records.jsonl import AppendLog
from mission_tui.records.runs.layout import RunDir
from tests.shell import Shell


def completed(shell: Shell, words: str) -> set[str]:
    """What the shell offers for the last of `words`."""
    shell.environ.update(COMP_WORDS=words, COMP_CWORD=str(len(words.split(" ")) - 1))
    shell.environ["_MISSION_TUI_COMPLETE"] = "bash_complete"
    try:
        done = shell()
    finally:
        for name in ("COMP_WORDS", "COMP_CWORD", "_MISSION_TUI_COMPLETE"):
            del shell.environ[name]
    return {line.partition(",")[2] for line in done.stdout.splitlines()}


def test_verbs_and_options_complete(shell: Shell) -> None:
    """The first word completes to verbs, a dash to that verb's options."""
    assert completed(shell, "mission-tui st") == {"status", "stop"}
    assert {"--seed", "--seeds", "--set"} <= completed(shell, "mission-tui launch --se")


def test_launch_completes_presets_of_every_folder(shell: Shell) -> None:
    """Own and shipped presets are offered."""
    assert completed(shell, "mission-tui launch ti") == {"tiny"}
    assert "heavy" in completed(shell, "mission-tui launch he")


def test_runs_complete_from_the_disk(shell: Shell) -> None:
    """Run ids are read from the runs root; no supervisor is started for it."""
    for run in ("20260101-000000-tiny-0001", "20260102-000000-tiny-0002"):
        (shell.root / run).mkdir(parents=True)
    (shell.root / "notes").mkdir()
    assert completed(shell, "mission-tui stop 2026") == {"20260101-000000-tiny-0001", "20260102-000000-tiny-0002"}
    assert completed(shell, "mission-tui stop 20260102") == {"20260102-000000-tiny-0002"}
    assert shell.processes() == []
    assert not (shell.root / ".supervisor").exists()


def test_names_groups_and_keys_complete_too(shell: Shell) -> None:
    """What runs are called now, their groups, and the keys of a spec; of a damaged journal nothing, and no word."""
    run = RunDir(shell.root / "20260101-000000-tiny-0001")
    (shell.root / "20260101-000000-tiny-0002" / "events.jsonl").mkdir(parents=True)
    run.path.mkdir()
    log = AppendLog(run.events)
    log.append(lambda seq: RunCreated(seq, 1.0, "walker-old", "tiny", group="nets"))
    log.append(lambda seq: RunRenamed(seq, 2.0, "walker"))
    log.close()
    assert completed(shell, "mission-tui stop wal") == {"walker"}
    assert completed(shell, "mission-tui status ne") == {"nets"}
    assert completed(shell, "mission-tui stop @") == {"@live"}
    assert completed(shell, "mission-tui launch tiny --group n") == {"nets"}
    assert completed(shell, "mission-tui launch tiny --set ppo.n_s") == {"ppo.n_steps="}
    assert completed(shell, "mission-tui set walker keep.limits.runs") == {
        "keep.limits.runs=",
        "keep.limits.runs_per_gpu=",
    }
    assert "ppo." in completed(shell, "mission-tui launch tiny --set ")
    assert completed(shell, "mission-tui bench tiny --vs tin") == {"tiny"}
    assert completed(shell, "mission-tui presets show tin") == {"tiny"}


def test_names_that_a_shell_would_carry_out_are_not_offered(shell: Shell) -> None:
    """It puts them into the line as they are, and runs and presets of a folder may be somebody else's."""
    run = RunDir(shell.root / "20260101-000000-tiny-0001")
    run.path.mkdir(parents=True)
    log = AppendLog(run.events)
    log.append(lambda seq: RunCreated(seq, 1.0, "wal$(touch x)", "tiny", group="ne`touch x`"))
    log.append(lambda seq: RunRenamed(seq, 2.0, "wal;touch x"))
    log.close()
    presets = shell.cwd / "presets"
    for name in ("ti$(touch x)", "ti;x", "ti&x", "-ti"):
        (presets / f"{name}.toml").write_text("", encoding="ascii")
    assert completed(shell, "mission-tui stop wal") <= {""}
    assert completed(shell, "mission-tui status ne") <= {""}
    assert completed(shell, "mission-tui launch ti") == {"tiny"}
    assert completed(shell, "mission-tui launch tiny --group n") <= {""}


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
def test_every_shell_of_the_reference_has_a_script(shell: Shell, kind: str) -> None:
    """The line that docs/cli.md gives prints a script for that shell."""
    shell.environ["_MISSION_TUI_COMPLETE"] = f"{kind}_source"
    done = shell()
    del shell.environ["_MISSION_TUI_COMPLETE"]
    assert "_MISSION_TUI_COMPLETE" in done.stdout
