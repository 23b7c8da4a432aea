"""Faults of configuration, names and time (rows N)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from mission_tui.fleet.events.journal import FleetEvent, RunPaused
from mission_tui.records.jsonl import AppendLog, read_all
from mission_tui.records.runs.checkpoint import newest_verified, prune, save_checkpoint
from tests.faults.campaign.part import violations_in
from tests.faults.parts import configs, names
from tests.records.saving import facts, fill_with

HOUR_S, YEAR_S = 3600.0, 365 * 86400.0


def test_n1_a_broken_preset_is_a_sentence_that_names_the_file() -> None:
    """Bytes, lines and values of shipped presets are changed: a spec that survives its file, or one printable line."""
    found, figures = violations_in(configs.PART, range(1500))
    assert found == []
    assert figures["refused"] > 500


@pytest.mark.slow
def test_n2_a_value_no_machine_can_carry_is_judged_before_a_launch() -> None:
    """Extreme values of any field by `--set`: refused by name, or a spec whose needs are finite and lacks are told."""
    found, figures = violations_in(configs.PART, range(1500), seed=2)
    assert found == []
    assert figures["taken"] > 50


def test_n3_no_name_leaves_its_folder_or_reaches_a_shell() -> None:
    """Paths, options, commands, controls and 300 bytes: a run id is one plain component, a name is plain or refused."""
    found, figures = violations_in(names.PART, range(1000))
    assert found == []
    assert figures["refused"] > 500


def test_n4_a_clock_that_steps_changes_no_order(tmp_path: Path) -> None:
    """An hour back, a year forward: records keep their sequence, and the last checkpoint taken is the newest."""
    times = (1000.0, 1000.0 - HOUR_S, 1000.0 + YEAR_S, 1000.0, -5.0)
    log = AppendLog(tmp_path / "events.jsonl")
    for t in times:
        log.append(partial(RunPaused, t=t, attempt=1))
    log.close()
    records, damage = read_all(tmp_path / "events.jsonl", FleetEvent)
    assert ([record.t for record in records], damage) == (list(times), [])
    assert [record.seq for record in records] == [1, 2, 3, 4, 5]
    for number, t in enumerate(times, start=1):
        taken = facts(100 * number)
        taken = type(taken)(**{key: getattr(taken, key) for key in taken.__struct_fields__} | {"t": t})
        save_checkpoint(tmp_path / "checkpoints", f"{100 * number:09d}", fill_with(b"x"), taken)
    newest = newest_verified(tmp_path / "checkpoints")
    assert newest is not None
    assert newest.timesteps == 500
    assert prune(tmp_path / "checkpoints", 1, ()) == ["000000400", "000000300", "000000200", "000000100"]
