"""The next attempt of a run that has ended: its files, then its keeper. Whoever asks for it comes through here."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.history.restart_policy import ASKED, Row
from mission_tui.fleet.resume.verdict import AS_IT_WAS, Change, Terms
from mission_tui.fleet.specs.spec import Spec
from mission_tui.plain_files import make_folder
from mission_tui.records.files.storage import storing
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.rules_snapshot import check_rules
from mission_tui.records.runs.spec_file import read_spec, write_spec
from mission_tui.records.runs.terms_file import write_terms
from mission_tui.supervisor.attempts import begin, open_live_run
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.disk.run_directory import rule_files, write_snapshot
from mission_tui.supervisor.launchers.local import attempt_order
from mission_tui.supervisor.starting.caller import Caller

__all__ = ["start_next_attempt"]


def start_next_attempt(
    core: Core,
    run_id: str,
    spec: Spec,
    caller: Caller,
    checkpoint: str | None,
    *,
    terms: Terms = AS_IT_WAS,
    changes: tuple[Change, ...] = (),
    row: Row = ASKED,
) -> None:
    """Write the attempt's files and hand it to a keeper; without a checkpoint it begins anew.

    Raises `MissionError` with nothing started: `StorageError` for a full disk, `DamagedError` for rules edited since.
    """
    core.check_room()
    run, known = core.run_dir(run_id), core.store.run(run_id)
    if run_id in core.live or not core.launcher.is_free(run):
        raise UsageError(f"cannot resume {run_id}: a process of it is still alive")
    number = max([known.journal.attempt, *run.attempts()]) + 1
    first = read_spec(run.spec)
    # The snapshot holds the rules of the newest attempt, whichever checkpoint this one goes on from.
    rules = rule_files(spec.env, caller.cwd) if spec.env.config != (known.spec or first).env.config else []
    if not rules:
        check_rules(run.snapshot)
    order = attempt_order(core.root, run, number, spec, caller, checkpoint)
    folder = run.attempt(number)
    try:
        with storing(folder.path, "make"):
            make_folder(folder.path)
        if spec != first:
            write_spec(folder.spec, spec)
        write_terms(folder.terms, terms)
        core.seals.write_order(run, order)
        _replace_rules(run, number, rules)
    except MissionError:
        shutil.rmtree(folder.path, ignore_errors=True)
        raise
    core.store.replace_spec(run_id, spec)
    begin(core, open_live_run(core, run, spec), order, checkpoint=checkpoint, changes=changes, terms=terms, row=row)


def _replace_rules(run: RunDir, number: int, rules: Sequence[Path]) -> None:
    """Keep the rules that were trained under so far with the attempt before, and put `rules` in their place."""
    if not rules:
        return
    kept = run.attempt(number - 1).path / run.snapshot.name
    with storing(run.snapshot, "keep"):
        run.snapshot.rename(kept)
    try:
        write_snapshot(run, rules)
    except MissionError:
        shutil.rmtree(run.snapshot, ignore_errors=True)
        kept.rename(run.snapshot)
        raise
