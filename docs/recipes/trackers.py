"""Rows of a run sent to W&B (offline) or trackio: every figure that is on record, attempt by attempt.

Copy this file to where your presets find their own classes; docs/recipes/trackers.md says how.
"""

from __future__ import annotations

import importlib
import json
import tomllib
from pathlib import Path
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

# What a tracker is told when a run, or another attempt of it, begins.
ASKED: dict[str, dict[str, Any]] = {"wandb": {"mode": "offline"}, "trackio": {}}


class Tracker(BaseCallback):
    """Sends the rows of `{run_dir}/metrics.jsonl` as they are written; `settings` go to the tracker's `init`."""

    def __init__(self, run_dir: str, project: str, tracker: str = "wandb", **settings: Any) -> None:
        super().__init__()
        self._folder = Path(run_dir)
        self._settings = {"project": project, **ASKED[tracker], **settings}
        self._name = tracker
        self._at = 0

    def _on_training_start(self) -> None:
        name = self._folder.name
        config = tomllib.loads((self._folder / "spec.toml").read_text(encoding="utf-8"))
        self._tracker: Any = importlib.import_module(self._name)
        if self._name == "wandb":
            # One run for all attempts, drawn over steps: what a resume took back is drawn again.
            self._settings |= {"id": name, "dir": str(self._folder)}
        self._tracker.init(name=name, config=config, resume="allow", **self._settings)
        if self._name == "wandb":
            self._tracker.define_metric("timesteps")
            self._tracker.define_metric("*", step_metric="timesteps")
        # What earlier attempts wrote, they sent.
        self._at = self._rows_file.stat().st_size if self._rows_file.exists() else 0

    def _on_rollout_start(self) -> None:
        self._send()

    def _on_step(self) -> bool:
        return True

    def _on_training_end(self) -> None:
        self._send()
        self._tracker.finish()

    @property
    def _rows_file(self) -> Path:
        return self._folder / "metrics.jsonl"

    def _send(self) -> None:
        with self._rows_file.open("rb") as file:
            file.seek(self._at)
            written = file.read()
        whole = written[: written.rfind(b"\n") + 1]
        self._at += len(whole)
        for row in map(json.loads, whole.splitlines()):
            if row["kind"] != "update":
                continue
            # "nan" and "inf" are words in JSON; trackers want the numbers.
            figures = {tag: float(value) for tag, value in row["metrics"].items()}
            figures |= {"time/steps_per_s": row["steps_per_s"], "timesteps": row["timesteps"]}
            if self._name == "wandb":
                self._tracker.log(figures)
            else:
                self._tracker.log(figures, step=row["timesteps"])
