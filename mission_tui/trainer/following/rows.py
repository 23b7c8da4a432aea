"""The rows of a command in `metrics.jsonl`: numbered over all attempts, each whole, and none written twice.

Steps that begin again within an attempt are counted on; an attempt that begins behind the last one's steps voids its
later rows. Whoever follows the attempt is the file's only writer.
"""

from __future__ import annotations

from collections.abc import Mapping

from mission_tui.fleet.events import metrics as facts
from mission_tui.records.files.append import AppendLog
from mission_tui.records.files.tail import read_all
from mission_tui.records.runs.layout import RunDir

MEAN_OF = 100
"""Episodes that a mean is over, as in SB3."""

MOST_STEPS = 2**53
SYNC_EVERY_S = 1.0
SHORTEST_S = 0.01
"""Steps of less time than this make no speed."""


class Rows:
    """The writing end for one attempt. `seq` is the last row's, `at` the update and the steps where the run stands."""

    def __init__(self, run_dir: RunDir, attempt: int) -> None:
        """Go on behind what is in the file; nothing is written yet. Raises `StorageError`."""
        self._attempt = attempt
        self._offset = self._passed = 0
        self._log = AppendLog(run_dir.metrics, sync_every_s=SYNC_EVERY_S)
        records, _ = read_all(run_dir.metrics, facts.MetricRecord)
        self.begun = bool(records) and records[-1].attempt == attempt
        self._before = _standing(records)
        for row in records:
            if isinstance(row, facts.TrainingStarted):
                self._passed = row.from_timesteps
        self.written = {
            row.t for row in records if row.attempt == attempt and not isinstance(row, facts.TrainingStarted)
        }
        """When those were said that were in the file before."""

    @property
    def seq(self) -> int:
        return self._log.last_seq

    @property
    def at(self) -> tuple[int, int]:
        return self._before[-1]

    def start(self, t: float) -> None:
        """The script is there, at unix time `t`: of the first attempt that is its beginning. Raises `StorageError`."""
        if len(self._before) == 1:
            self._begin(0, t)

    def update(
        self,
        timesteps: int | None,
        t: float,
        seconds: tuple[float, float],
        steps_per_s: float | None,
        metrics: Mapping[str, facts.Metric],
        episodes: facts.Episodes,
        took_s: float = 0.0,
        total_timesteps: int | None = None,
    ) -> None:
        """One update ended at unix time `t`; `seconds` of its rollout and of its learning, 0 where not known.

        `total_timesteps` are those that the script means to reach, counted as it counts `timesteps`.
        Where `steps_per_s` is None it comes of `took_s`. Raises `StorageError`, and may be called again then.
        """
        self._begin(timesteps, t)
        number, last = self.at
        if timesteps is not None and timesteps + self._offset < last:
            self._offset = last  # the script counts anew, the run goes on
        steps = last if timesteps is None else timesteps + self._offset
        if steps_per_s is None:
            steps_per_s = (steps - last) / took_s if took_s > SHORTEST_S else 0.0
        at, said = (number + 1, steps), dict(metrics)
        total = None if total_timesteps is None else min(MOST_STEPS, total_timesteps + self._offset)
        self._log.append(
            lambda seq: facts.UpdateDone(
                seq,
                self._attempt,
                *at,
                t,
                *seconds,
                steps_per_s,
                metrics=said,
                episodes=episodes,
                total_timesteps=total,
            )
        )
        self._before[1:] = [at]  # of the same attempt nothing is taken back

    def skip_update(self, timesteps: int | None) -> None:
        """An update of `timesteps` is in the file already: whether the script counted anew shows by those alone."""
        if timesteps is not None:
            if timesteps + self._offset < self._passed:
                self._offset = self._passed
            self._passed = timesteps + self._offset

    def checkpoint(self, path: str, t: float) -> None:
        """The script saved `path`. Raises `StorageError`, and may be called again then."""
        self._begin(None, t)
        self._log.append(lambda seq: facts.CheckpointSaved(seq, self._attempt, *self.at, t, path, "reported"))

    def close(self) -> None:
        """Make everything durable. Raises `StorageError`; closed it is all the same."""
        self._log.close()

    def _begin(self, timesteps: int | None, t: float) -> None:
        """The attempt goes on behind the last update with fewer steps: where its checkpoint was, or from nothing."""
        if self.begun:
            return
        before = list(self._before)
        while timesteps is not None and len(before) > 1 and before[-1][1] >= timesteps:
            before.pop()
        update, steps = before[-1]
        self._log.append(
            lambda seq: facts.TrainingStarted(seq, self._attempt, t, from_update=update, from_timesteps=steps)
        )
        self._before, self.begun = before, True


def _standing(records: list[facts.MetricRecord]) -> list[tuple[int, int]]:
    """Update and steps of every row that no later attempt took back, behind (0, 0)."""
    before = [(0, 0)]
    for row in records:
        while isinstance(row, facts.TrainingStarted) and before[-1][0] > row.from_update:
            before.pop()
        if isinstance(row, facts.UpdateDone):
            before.append((row.update, row.timesteps))
    return before
