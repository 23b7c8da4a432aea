"""The trainer's own account of its run: rows of `metrics.jsonl`, the only truth, and a word on the socket after each.

The file is written first. Rows that the disk refuses are held, in order, until it takes them; that is said once on
stderr and does not end a training.

TensorBoard events beside it, under SB3's tags, are a convenience where the `tensorboard` extra is installed: when their
writer fails, that is said once and the training goes on without it; after a full disk they go on once there is room.

`benchmark_metrics.json` says what a run that was to train for a time did in it, by these rows. It has the shape of the
file that `mission-tui bench` writes, with one preset and one repeat, so that `bench --vs` takes either.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import resource
import socket
import time
import tomllib
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import msgspec
from msgspec import structs

from mission_tui.fence import Fence
from mission_tui.fleet.events import metrics as rows
from mission_tui.fleet.events.findings import METRICS
from mission_tui.fleet.events.metrics import MetricRecord, TrainingStarted, UpdateDone
from mission_tui.fleet.events.outcome import Phase
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.timed_runs import Load, Repeat, Side, pace_of, timing_of, work_of
from mission_tui.forks import leave_fork
from mission_tui.ipc import telemetry_messages as messages
from mission_tui.records.atomic import StorageError, write_atomic
from mission_tui.records.jsonl import AppendLog, read_all
from mission_tui.records.runs.checkpoint import Manifest
from mission_tui.records.runs.code_files import read_provenance
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.failures import Failure, complain
from mission_tui.trainer.named_parts import Registration
from mission_tui.trainer.periodic_evaluation import Due, EvaluationReply

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

CheckpointReason = Literal["time", "steps", "asked", "stop", "end", "finding"]

_SYNC_EVERY_S = 1.0
_MOST_HELD = 10_000
_WHY_CHARACTERS = 400


class Record:
    """Writes for one attempt; `update` and `timesteps` are where the run stands over all attempts."""

    def __init__(
        self,
        run_dir: RunDir,
        attempt: int,
        say: Callable[[messages.TelemetryMessage], None],
        fence: Fence | None = None,
    ) -> None:
        """Without `fence` no newer attempt is expected."""
        self.fence = Fence(run_dir.path, attempt, "") if fence is None else fence
        self._process = os.getpid()
        self._log = AppendLog(run_dir.metrics, sync_every_s=_SYNC_EVERY_S)
        if self._log.torn is not None:
            complain(f"metrics.jsonl ended in half a row ({len(self._log.torn)} bytes), which was set aside")
        self._attempt = attempt
        self._say = say
        self._complained = False
        self._held: deque[rows.MetricRecord] = deque(maxlen=_MOST_HELD)
        self._dropped: Counter[str] = Counter()
        self._failures = 0
        self.update = 0
        self.timesteps = 0

    def phase(self, phase: Phase) -> None:
        """Say what begins now. Phases are not kept: they matter only while they last."""
        if not self._is_ours():
            return
        self._say(messages.PhaseEntered(phase, self.update, self.timesteps, time.time()))

    def started(
        self,
        update: int,
        timesteps: int,
        checkpoint: str | None,
        exact: bool,
        registration: Registration = Registration(),  # noqa: B008 - frozen
        resumed: rows.Resumed | None = None,
        vec: str = "",
        device: str = "",
        moved: tuple[str, ...] = (),
    ) -> None:
        """The attempt begins to learn after `update` updates; rows of earlier attempts beyond that are void."""
        self.update, self.timesteps = update, timesteps
        self._write(
            lambda seq: rows.TrainingStarted(
                seq,
                self._attempt,
                time.time(),
                update,
                timesteps,
                checkpoint=checkpoint,
                exact=exact,
                reward_threshold=registration.reward_threshold,
                max_episode_steps=registration.max_episode_steps,
                resumed=resumed,
                vec=vec,
                device=device,
                moved=moved,
            ),
            durable=True,
        )

    def updated(
        self,
        update: int,
        timesteps: int,
        rollout_s: float,
        update_s: float,
        metrics: Mapping[str, object],
        episodes: rows.Episodes,
        env_s: float | None = None,
        trained_s: float | None = None,
    ) -> None:
        """One update is done; `timesteps` include its rollout, and `rollout_s` the `env_s` of its environments.

        `trained_s` is what the run has used of a budget in seconds.
        """
        steps, self.update, self.timesteps = timesteps - self.timesteps, update, timesteps
        said = self._numbers(metrics)
        self._write(
            lambda seq: rows.UpdateDone(
                seq,
                self._attempt,
                update,
                timesteps,
                t=time.time(),
                rollout_s=rollout_s,
                update_s=update_s,
                steps_per_s=steps / (rollout_s + update_s),
                metrics=said,
                episodes=episodes,
                env_s=env_s,
                trained_s=trained_s,
            )
        )

    def changed(self, number: int, assignments: tuple[str, ...], diff: tuple[str, ...]) -> None:
        """From the next update on the settings `assignments` are in effect, as event `number` asked for."""
        self._write(
            lambda seq: rows.SettingsChanged(
                seq, self._attempt, self.update, self.timesteps, time.time(), number, assignments, diff
            ),
            durable=True,
        )

    def saved(self, manifest: Manifest, reason: CheckpointReason, seconds: float) -> None:
        """The checkpoint of `manifest` exists and was read back; it took `seconds`."""
        self._write(
            lambda seq: rows.CheckpointSaved(
                seq,
                self._attempt,
                manifest.update,
                manifest.timesteps,
                time.time(),
                manifest.name,
                reason,
                size_bytes=manifest.size_bytes,
                seconds=seconds,
            ),
            durable=True,
        )

    def failed(self, duty: str, why: str) -> None:
        """`duty` could not be done; the training goes on. Said at once too: the disk may be what failed."""
        self._failures += 1
        number, t, why = self._failures, time.time(), _brief(why)
        self._say(messages.TrainerDutyFailed(duty, why, t, number))
        self._write(
            lambda seq: rows.DutyFailed(seq, self._attempt, self.update, self.timesteps, t, duty, why, number),
            durable=True,
        )

    def works_again(self, duty: str, how: str) -> None:
        """`duty` had failed, and can be done again."""
        number, t, how = self._failures, time.time(), _brief(how)
        self._write(
            lambda seq: rows.DutyFailed(
                seq, self._attempt, self.update, self.timesteps, t, duty, how, number, over=True
            ),
            durable=True,
        )

    def answered(self, number: int, checkpoint: str | None, why: str = "") -> None:
        """What came of the orders for a checkpoint up to `number`; nobody waits for that of 0."""
        if number:
            self._say(messages.CheckpointAnswered(number, checkpoint, _brief(why)))

    def evaluated(self, what: Due, played: EvaluationReply) -> None:
        """The checkpoint of `what` was played."""
        self._write(
            lambda seq: rows.EvaluationDone(
                seq,
                self._attempt,
                what.update,
                what.timesteps,
                time.time(),
                played.mean,
                played.std,
                played.episodes,
                played.won,
                what.put_off_from,
            )
        )

    def ended(
        self,
        how: Literal["finished", "stopped", "failed"],
        checkpoint: str | None,
        failure: Failure | None = None,
        cause: str = "",
        unsaved: str = "",
    ) -> None:
        """The last word of the attempt; the newest checkpoint to go on from is `checkpoint`. Without a `failure` an
        empty `cause` is the usual one. `unsaved` says why the last boundary is not in that checkpoint.
        """
        self._write(
            lambda seq: rows.TrainingEnded(
                seq,
                self._attempt,
                self.update,
                self.timesteps,
                time.time(),
                how,
                failure=failure.kind if failure else None,
                cause=failure.cause if failure else cause,
                checkpoint=checkpoint,
                unsaved=unsaved,
                from_env=failure is not None and failure.from_env,
            ),
            durable=True,
        )

    def _numbers(self, metrics: Mapping[str, object]) -> dict[str, rows.Metric]:
        """The metrics that are numbers. Others are dropped and counted; each name is complained of once."""
        said: dict[str, rows.Metric] = {}
        for tag, value in metrics.items():
            number = rows.plain(value)
            if number is not None:
                said[tag] = rows.spoken(number)
                continue
            if tag not in self._dropped:
                complain(f"metric {tag} is a {type(value).__name__} and no number: it is dropped, this run through")
            self._dropped[tag] += 1
        return said

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Make everything durable and close the file; say how much was dropped."""
        if not self._is_ours():
            return
        self.fence.check_if_due()
        for tag, times in self._dropped.items():
            complain(f"metric {tag} was dropped {times} times, because it was no number")
        self._log.close()

    def _write(self, make: Callable[[int], rows.MetricRecord], *, durable: bool = False) -> None:
        if not self._is_ours():
            return
        self.fence.check_if_due()
        # Made now, because a row says when it happened, not when the disk took it.
        self._held.append(make(0))
        try:
            while self._held:
                self._append(self._held[0])
                self._held.popleft()
            if durable:
                self._log.sync()
        except StorageError as error:
            if not self._complained:
                complain(f"rows of metrics.jsonl wait for the disk: {error}")
                # The log is on the same disk: without this word the run would just seem to stand still.
                self._failures += 1
                self._say(messages.TrainerDutyFailed(METRICS, _brief(str(error)), time.time(), self._failures))
            self._complained = True
            return
        self._complained = False
        self._say(messages.RowsWritten(self._log.last_seq))

    def _is_ours(self) -> bool:
        """Whether this is the process that keeps the record: what an environment forked off it says nothing here."""
        leave_fork()
        return os.getpid() == self._process

    def _append(self, record: rows.MetricRecord) -> None:
        self._log.append(lambda seq: structs.replace(record, seq=seq))


def _brief(why: str) -> str:
    return " ".join(why.split())[:_WHY_CHARACTERS]


_ROOM_BYTES = 4 << 20
_LOOK_S = 10.0
"""A full disk is looked at so often for room."""


class EventFile:
    """The event files of one attempt in the run directory; does nothing without the extra, or without a directory.

    A later attempt goes on behind `from_timesteps`: its file begins with the mark of a restart there, so that
    TensorBoard takes back the points beyond it, as readers of `metrics.jsonl` do, and shows attempts as one curve.
    After a full disk a further file goes on once there is room, with the newest points that had none.
    """

    def __init__(
        self,
        run_dir: Path | None,
        attempt: int,
        from_timesteps: int = 0,
        failed: Callable[[str], None] = complain,
        again: Callable[[str], None] = complain,
    ) -> None:
        self._failed, self._again = failed, again
        self._dir, self._suffix = run_dir, f".attempt{attempt}"
        self._writer: SummaryWriter | None = None
        self._held: deque[tuple[dict[str, float], int, float]] | None = None
        self._look_at = 0.0
        if run_dir is not None and importlib.util.find_spec("tensorboard") is not None:
            try:
                # What TensorBoard keeps are points before the mark's step.
                self._writer = self._opened(run_dir, None if attempt == 1 else from_timesteps + 1)
            except OSError as error:
                failed(f"there are no TensorBoard events: {error}")

    def write(self, metrics: Mapping[str, object], timesteps: int) -> None:
        """One point of every metric at `timesteps`."""
        if self._writer is None and self._held is None:
            return
        # A callback may log words; the record says that they are dropped.
        points = {tag: number for tag, value in metrics.items() if (number := rows.plain(value)) is not None}
        try:
            if self._held is None or self._goes_on(self._held):
                self._add(points, timesteps, time.time())
            else:
                self._held.append((points, timesteps, time.time()))
        except (OSError, RuntimeError) as error:
            # Its thread hands an earlier write error to whoever writes next.
            full = isinstance(error, OSError) and error.errno == errno.ENOSPC
            self._writer, self._look_at = None, time.monotonic() + _LOOK_S
            self._held = deque([(points, timesteps, time.time())], _MOST_HELD) if full else None
            then = "some are missing, and they go on once there is room" if full else "they end here"
            all_of_them = f"`mission-tui track {self._dir.name if self._dir else 'RUN'} --to tensorboard`"
            self._failed(f"TensorBoard events at step {timesteps:,}: {error}; {then}; {all_of_them} writes all of them")

    def close(self) -> None:
        """Flush and close."""
        if self._writer is not None:
            try:
                self._writer.close()
            except (OSError, RuntimeError) as error:
                self._failed(f"TensorBoard events may lack their end: {error}")
            self._writer = None

    def _opened(self, run_dir: Path, mark: int | None = None) -> SummaryWriter:
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(str(run_dir), purge_step=mark, filename_suffix=self._suffix)
        # Made by a thread of TensorBoard's, with the umask of the launching shell.
        writer.flush()
        for path in run_dir.glob(f"events.out.tfevents.*{self._suffix}"):
            path.chmod(0o600)
        return writer

    def _add(self, points: Mapping[str, float], timesteps: int, t: float) -> None:
        for tag, number in points.items():
            if self._writer is not None:
                self._writer.add_scalar(tag, number, timesteps, t)

    def _goes_on(self, held: deque[tuple[dict[str, float], int, float]]) -> bool:
        """Whether there is room again, and what was held is written."""
        now = time.monotonic()
        if self._dir is None or now < self._look_at:
            return False
        self._look_at = now + _LOOK_S
        # Whoever only tries leaves an empty file, and a trace in the log, each time.
        disk = os.statvfs(self._dir)
        if disk.f_bavail * disk.f_frsize < _ROOM_BYTES:
            return False
        self._writer = self._opened(self._dir)
        self._held = None
        for points, timesteps, t in held:
            self._add(points, timesteps, t)
        self._again(f"there is room again: TensorBoard events go on in a further file, from step {held[0][1]:,}")
        return True


def write_timed_metrics(run: RunDir, attempt: int, spec: Spec, *, finished: bool) -> None:
    """Write what `attempt` did of the time that the run was to train; nothing for a run with a budget in steps.
    `finished` is false where somebody stopped it.

    Only this attempt counts: the clock stood still between two. Where it did too few updates to take a speed from, the
    file says so in its notes, and has no measured preset. Raises `StorageError`, and `OSError` where its rows cannot be
    read.
    """
    asked_s = spec.run.duration_s
    if asked_s is None:
        return
    records = [it for it in read_all(run.metrics, MetricRecord)[0] if it.attempt == attempt]
    begun = next((it for it in records if isinstance(it, TrainingStarted)), None)
    timing, notes = timing_of(records, asked_s), []
    if attempt > 1:
        notes.append(f"only attempt {attempt}: what the run trained before is not in these numbers")
    if not finished:
        notes.append(f"stopped before its {asked_s:g} s were over")
    if timing is None or begun is None:
        updates = sum(isinstance(it, UpdateDone) for it in records)
        did = f"attempt {attempt} did {updates} update{'' if updates == 1 else 's'}"
        _write_timed(run, spec, asked_s, [*notes, f"no speed: {did}, too few to take one from"], None)
        return
    timing = structs.replace(
        timing, timesteps=timing.timesteps - begun.from_timesteps, updates=timing.updates - begun.from_update
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    host = {"host": socket.gethostname(), "cores": str(len(os.sched_getaffinity(0)))}
    provenance = read_provenance(run, attempt)
    versions: dict[str, str] = {}
    with suppress(OSError, tomllib.TOMLDecodeError):
        found = tomllib.loads(run.attempt(attempt).effective.read_text()).get("host", {})
        versions = {name: str(value) for name, value in found.items() if name != "name"}
    side = Side(
        preset=spec.preset,
        asked_s=asked_s,
        repeats=(Repeat(run=run.id, seed=spec.run.seed, timing=timing, load=Load(peak_rss_bytes=peak)),),
        work=work_of(spec),
        host=host if provenance is None else host | provenance.machine,
        versions=versions,
    )
    _write_timed(run, spec, asked_s, notes, side)


def _write_timed(run: RunDir, spec: Spec, asked_s: float, notes: list[str], side: Side | None) -> None:
    pace = None if side is None else msgspec.to_builtins(pace_of(side.rates))
    document = {
        "schema": 1,
        "preset": spec.preset,
        "seconds": asked_s,
        "steps_per_s": pace,
        "vs": None,
        "ratio": None,
        "verdict": None,
        "notes": notes,
        "sides": [] if side is None else [{**msgspec.to_builtins(side), "steps_per_s": pace}],
    }
    write_atomic(run.timed, msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
