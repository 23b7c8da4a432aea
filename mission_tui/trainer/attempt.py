"""What one attempt was asked to do: its run directory, number, spec, and the checkpoint it goes on from."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mission_tui.fleet.resume.verdict import Terms
from mission_tui.fleet.specs.spec import Spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.spec_file import attempt_spec_file, read_spec, read_terms


@dataclass(frozen=True, slots=True)
class Attempt:
    """One process lifetime of a run."""

    run_dir: RunDir
    number: int
    checkpoint: str | None

    @classmethod
    def parse(cls, arguments: Sequence[str] | None) -> Attempt:
        """The attempt that the command line names; exits with 2 when it names none."""
        parser = argparse.ArgumentParser(prog="mission_tui.trainer", description="Train one attempt of a run.")
        parser.add_argument("run_dir", type=Path)
        parser.add_argument("attempt", type=int)
        parser.add_argument("--checkpoint", help="name of the checkpoint to go on from")
        parsed = parser.parse_args(arguments)
        return cls(RunDir(parsed.run_dir.resolve()), parsed.attempt, parsed.checkpoint)

    @property
    def spec_file(self) -> Path:
        return attempt_spec_file(self.run_dir, self.number)

    def read_spec(self) -> Spec:
        """The attempt's spec. Raises `DamagedError` and `PresetError`."""
        return read_spec(self.spec_file)

    def read_terms(self) -> Terms:
        """The terms on which it goes on. Raises `DamagedError`."""
        return read_terms(self.run_dir.attempt(self.number).terms)
