"""The fleet as it was: what the files of a runs root tell of a moment, whichever way one comes to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mission_tui.errors import UsageError
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import (
    Asked,
    AttemptEnded,
    AttemptStarting,
    FindingChanged,
    RunCreated,
    RunPaused,
    RunResumed,
)
from mission_tui.fleet.events.metrics import Metric, TrainingEnded, TrainingStarted, UpdateDone
from mission_tui.fleet.events.outcome import Finished, Stopped
from mission_tui.fleet.strip import StateInterval
from mission_tui.fleet.views.snapshot import GpuMeters, HostMeters, Replay, RunView
from mission_tui.ipc.requests import GetLog, GetStrip
from mission_tui.records.atomic import write_json
from mission_tui.records.jsonl import AppendLog
from mission_tui.records.runs.attempt import ExitRecord
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.trash import move_to_trash
from mission_tui.supervisor.readonly.meters import PastMeters
from mission_tui.supervisor.readonly.replay import PastFleet, log_at

HEAVY = "20261121-104207-heavy-3f9a"
CART = "20261121-104208-cart-9a10"
KL = Finding("1", "kl-persistent", "warning", 6, 6, "KL outside trust region", "100 steps", "fewer epochs")


def written(path: Path, makes: list[Callable[[int], Any]]) -> None:
    """A records file with these lines."""
    log = AppendLog(path)
    for make in makes:
        log.append(make)
    log.close()


def row(update: int, t: float, attempt: int = 1) -> Callable[[int], UpdateDone]:
    """Update `update`, done at `t` after 6 s of rollout and 2 s of update."""
    metrics: dict[str, Metric] = {"rollout/ep_rew_mean": float(update)}
    return lambda seq: UpdateDone(seq, attempt, update, 64 * update, t, 6.0, 2.0, 8.0, metrics)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """`heavy` trains from 100 s to the end, with a pause, a finding and a second attempt; `cart` from 150 to 200 s."""
    heavy, cart = RunDir(tmp_path / HEAVY), RunDir(tmp_path / CART)
    for run in (heavy, cart):
        run.path.mkdir()
    written(
        heavy.events,
        [
            lambda seq: RunCreated(seq, 100.0, "heavy", "heavy"),
            lambda seq: AttemptStarting(seq, 100.5, 1),
            lambda seq: RunPaused(seq, 165.0, 1),
            lambda seq: RunResumed(seq, 175.0, 1),
            lambda seq: FindingChanged(seq, 181.0, KL),
            lambda seq: Asked(seq, 210.0, "stop", 1),
            lambda seq: AttemptEnded(seq, 211.0, 1, Stopped("000000512")),
            lambda seq: AttemptStarting(seq, 300.0, 2, "000000512"),
        ],
    )
    written(
        heavy.metrics,
        [
            lambda seq: TrainingStarted(seq, 1, 101.0),
            *(row(update, 110.0 + 10 * update) for update in range(1, 11)),
            lambda seq: TrainingEnded(seq, 1, 8, 512, 211.0, "stopped", checkpoint="000000512"),
            lambda seq: TrainingStarted(seq, 2, 301.0, from_update=8, from_timesteps=512, checkpoint="000000512"),
            row(9, 310.0, 2),
        ],
    )
    written(
        cart.events,
        [
            lambda seq: RunCreated(seq, 150.0, "cart", "cart"),
            lambda seq: AttemptStarting(seq, 150.5, 1),
            lambda seq: AttemptEnded(seq, 200.0, 1, Finished("000000128")),
        ],
    )
    written(cart.metrics, [lambda seq: TrainingStarted(seq, 1, 151.0), row(1, 160.0), row(2, 199.0)])
    return tmp_path


def at(runs: PastFleet, moment: float) -> dict[str, RunView]:
    """The fleet at `moment`, by name."""
    runs.seek(moment)
    return {view.name: view for view in runs.snapshot().runs}


def test_a_run_is_there_from_the_moment_it_was_made(root: Path) -> None:
    """Before, nobody knew of it."""
    runs = PastFleet(root)
    assert list(at(runs, 149.0)) == ["heavy"]
    assert {name: view.state for name, view in at(runs, 150.2).items()} == {"heavy": "running", "cart": "queued"}


def test_a_run_stands_as_it_stood(root: Path) -> None:
    """State, phase, curve and findings are those of the moment; later rows and events are not known yet."""
    runs = PastFleet(root)
    heavy = at(runs, 125.0)["heavy"]
    assert (heavy.state, heavy.phase, heavy.update, heavy.findings) == ("running", "rollout", 1, ())
    assert heavy.series["rollout/ep_rew_mean"] == (1.0,)
    assert at(runs, 128.5)["heavy"].phase == "update"
    assert at(runs, 166.0)["heavy"].state == "paused"
    assert [finding.rule for finding in at(runs, 190.0)["heavy"].findings] == ["kl-persistent"]
    cart = at(runs, 201.0)["cart"]
    assert (cart.state, cart.outcome, cart.update) == ("ended", "finished", 2)


def test_between_two_attempts_a_run_had_ended(root: Path) -> None:
    """It is as it ended then, with the rows that its later attempt took back; afterwards they are gone."""
    runs = PastFleet(root)
    between, after = at(runs, 250.0)["heavy"], at(runs, 305.0)["heavy"]
    assert (between.state, between.outcome, between.update, between.attempt) == ("ended", "stopped", 10, 1)
    assert (after.state, after.update, after.attempt) == ("running", 8, 2)


def test_whichever_way_one_comes_the_moment_is_the_same(root: Path) -> None:
    """Forward step by step, backward step by step, and at once."""
    moments = [90.0 + 5 * step for step in range(50)]
    runs, forward = PastFleet(root), {}
    for moment in moments:
        forward[moment] = at(runs, moment)
    for moment in reversed(moments):
        assert at(runs, moment) == forward[moment], moment
    for moment in moments[::7]:
        assert at(PastFleet(root), moment) == forward[moment], moment


def test_each_going_is_news_and_carries_its_moment(root: Path) -> None:
    """Even where nothing has changed; beyond the ends one stays at the end."""
    runs = PastFleet(root)
    runs.seek(170.0)
    first = runs.snapshot()
    runs.seek(171.0)
    second = runs.snapshot()
    assert (first.t, second.t) == (170.0, 171.0)
    assert second.revision > first.revision
    runs.seek(0.0)
    assert second.replay is not None
    assert runs.snapshot().t == second.replay.since == 100.0
    runs.seek(1e12)
    assert runs.snapshot().t == second.replay.until


def test_rows_end_at_the_moment(root: Path) -> None:
    """What charts are drawn from, of a run that lived and of one that was over."""
    runs = PastFleet(root)
    runs.seek(142.0)
    assert [record.t for record in runs.rows(HEAVY)] == [101.0, 120.0, 130.0, 140.0]
    runs.seek(205.0)
    assert [record.t for record in runs.rows(CART)] == [151.0, 160.0, 199.0]


def test_meters_are_those_of_the_moment_or_none(root: Path) -> None:
    """Nobody's meters are no zeros."""
    host, gpu = HostMeters("gpu-box", 8, cpu_percent=50.0), GpuMeters("GPU-1", "L4")
    runs = PastFleet(root, lambda t: (host, (gpu,)) if t > 150 else None, lambda t: f"none at {t:g}")
    runs.seek(140.0)
    assert (runs.snapshot().host.cpu_percent, runs.snapshot().host.gpu_note) == (None, "none at 140")
    runs.seek(160.0)
    assert (runs.snapshot().host, runs.snapshot().gpus) == (host, (gpu,))


def test_a_damaged_line_is_passed_over(root: Path) -> None:
    """The others are all there, and a file that is gone has none."""
    metrics = root / HEAVY / "metrics.jsonl"
    lines = metrics.read_bytes().split(b"\n")
    lines[1] = lines[1].replace(b"120.0", b"121.0")
    metrics.write_bytes(b"\n".join(lines))
    (root / CART / "metrics.jsonl").unlink()
    fleet = at(PastFleet(root), 160.0)
    assert (fleet["heavy"].update, fleet["cart"].update) == (5, None)
    assert fleet["heavy"].series["rollout/ep_rew_mean"] == (2.0, 3.0, 4.0, 5.0)


def test_the_strip_shows_who_was_held_though_nobody_kept_it(root: Path) -> None:
    """By the journal: paused at that moment, and later with both its ends."""
    runs, kept = PastFleet(root), PastMeters(root)

    def lanes(moment: float) -> dict[str, tuple[StateInterval, ...]]:
        runs.seek(moment)
        strip = kept.strip(runs.store, GetStrip(id=1, seconds=60.0), moment)
        return {lane.name: lane.stands for lane in strip.lanes}

    assert lanes(170.0) == {"heavy": (StateInterval("paused", 165.0, 170.0),)}
    assert lanes(180.0) == {"heavy": (StateInterval("paused", 165.0, 175.0),)}
    assert lanes(140.0) == {}


def test_a_run_that_was_removed_since_was_there(root: Path) -> None:
    """As long as the trash keeps it, with its directory as it lies there now; nothing of it after its removal."""
    (RunDir(root / CART).path / "note").write_text("x")
    move_to_trash(root, RunDir(root / CART))
    runs = PastFleet(root)
    cart = at(runs, 201.0)["cart"]
    assert (cart.state, cart.outcome, cart.update) == ("ended", "finished", 2)
    assert (runs.run_dir(CART).path / "note").exists()
    assert list(at(runs, time.time())) == ["heavy"]
    assert list(at(runs, 201.0)) == ["heavy", "cart"]


def test_before_the_first_run_there_is_its_first_moment(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A runs root without runs has one moment, in which there is nothing."""
    runs = PastFleet(root)
    assert [view.state for view in at(runs, -1e9).values()] == ["queued"]
    assert runs.snapshot().t == 100.0
    empty = PastFleet(tmp_path_factory.mktemp("empty"))
    assert at(empty, 5.0) == {}
    assert empty.snapshot().replay == Replay(empty.moment, empty.moment)


async def test_a_log_is_shown_of_what_was_over(root: Path) -> None:
    """Of an attempt that still ran nobody knows how long it was by then; of a later one there was nothing."""
    for attempt in (1, 2):
        output = RunDir(root / HEAVY).attempt(attempt).output
        output.parent.mkdir(parents=True)
        output.write_text(f"words of attempt {attempt}\n")
    runs = PastFleet(root)
    runs.seek(250.0)
    assert (await log_at(runs, GetLog(id=1, run="heavy"))).text == "words of attempt 1\n"
    with pytest.raises(UsageError, match="no attempt 2 yet"):
        await log_at(runs, GetLog(id=1, run="heavy", attempt=2))
    runs.seek(305.0)
    assert (await log_at(runs, GetLog(id=1, run="heavy", attempt=1))).text == "words of attempt 1\n"
    with pytest.raises(UsageError, match="shows only logs of attempts that had ended"):
        await log_at(runs, GetLog(id=1, run="heavy"))
    runs.seek(100.0)
    with pytest.raises(UsageError, match="no attempt 1 yet"):
        await log_at(runs, GetLog(id=1, run="heavy"))


def test_a_long_run_that_was_over_is_shown_by_its_newest_rows(root: Path) -> None:
    """All that a list shows of it, and no more: two hundred of them are read when somebody goes far back."""
    long = RunDir(root / CART)
    long.metrics.unlink()
    rows = [row(update, 151.0 + update / 10, 1) for update in range(1, 401)]
    written(long.metrics, [lambda seq: TrainingStarted(seq, 1, 151.0), *rows])
    cart = at(PastFleet(root), 250.0)["cart"]
    assert (cart.update, cart.series["rollout/ep_rew_mean"]) == (400, tuple(float(at) for at in range(341, 401)))


def test_a_run_that_ended_unseen_had_ended(root: Path) -> None:
    """While no supervisor was there nobody wrote it down; the keeper knew, and later it is as the journal has it."""
    attempt = RunDir(root / CART).attempt(1)
    attempt.path.mkdir(parents=True)
    write_json(attempt.exit, ExitRecord(attempt=1, ended_t=180.0, code=0))
    runs = PastFleet(root)
    assert at(runs, 179.0)["cart"].state == "running"
    for moment in (185.0, 186.0):
        cart = at(runs, moment)["cart"]
        assert (cart.state, cart.outcome, cart.ended_t) == ("ended", "finished", 180.0)
    assert at(runs, 250.0)["cart"].ended_t == 200.0
    assert at(runs, 170.0)["cart"].state == "running"
