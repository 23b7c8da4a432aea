"""The rule files that a run keeps: written with digests, found by attempt, and refused when they were changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from mission_tui.errors import DamagedError
from mission_tui.records.runs.code_files import check_rules, rules_identity, rules_of, write_rules
from mission_tui.records.runs.layout import RunDir

RULES = {"rules.toml": b'winning = ["captured"]\n', "world.toml": b"width_m = 60\n"}


def test_kept_rules_pass_and_changed_ones_are_named(tmp_path: Path) -> None:
    """A byte more, a file that is gone, or digests that nobody can read: refused, and the file is named."""
    folder = tmp_path / "snapshot"
    write_rules(folder, RULES)
    check_rules(folder)
    (folder / "rules.toml").write_bytes(RULES["rules.toml"] + b"#")
    with pytest.raises(DamagedError, match=r"snapshot/rules\.toml has changed since the run was trained"):
        check_rules(folder)
    write_rules(folder, RULES)
    (folder / "world.toml").unlink()
    with pytest.raises(DamagedError, match=r"world\.toml has changed"):
        check_rules(folder)
    (folder / "SHA256SUMS").write_text("nonsense\n")
    with pytest.raises(DamagedError, match="SHA256SUMS is damaged"):
        check_rules(folder)


def test_the_same_rules_have_one_identity(tmp_path: Path) -> None:
    """With and without digests beside them; other rules have another, and no rules none."""
    write_rules(tmp_path / "new", RULES)
    (tmp_path / "old").mkdir()
    for name, content in reversed(RULES.items()):
        (tmp_path / "old" / name).write_bytes(content)
    write_rules(tmp_path / "other", RULES | {"world.toml": b"width_m = 61\n"})
    new, old, other, none = (rules_identity(tmp_path / name) for name in ("new", "old", "other", "none"))
    assert new == old != other
    assert (len(new), none) == (64, "")


def test_a_run_without_rules_has_nothing_to_check(tmp_path: Path) -> None:
    """Neither a run of another environment nor one from before digests is refused."""
    check_rules(tmp_path / "snapshot")
    (tmp_path / "rules.toml").write_bytes(b"")
    check_rules(tmp_path)


def test_rules_are_those_of_the_attempt(tmp_path: Path) -> None:
    """Rules that were replaced before attempt 3 lie with attempt 2, and are those of attempts 1 and 2."""
    run = RunDir(tmp_path)
    for number in (1, 2, 3):
        run.attempt(number).path.mkdir(parents=True)
    write_rules(run.attempt(2).path / "snapshot", RULES)
    write_rules(run.snapshot, RULES)
    assert [rules_of(run, number) for number in (1, 2, 3)] == [run.attempt(2).path / "snapshot"] * 2 + [run.snapshot]
