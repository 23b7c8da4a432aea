"""How progress is told where there is no terminal."""

from __future__ import annotations

import io

from msgspec.structs import replace

from mission_tui.cli.tables.progress import PlainBoard, TaskBar
from mission_tui.cli.terminal_output import Table
from mission_tui.fleet.views.snapshot import RunView

RUN = RunView(
    id="20260101-000000-heavy-0000",
    name="heavy",
    preset="heavy",
    run_dir="/runs/heavy",
    state="running",
    phase="rollout",
    created_t=0.0,
    timesteps=2500,
    total_timesteps=10_000,
    steps_per_s=1234.5,
    eta_s=61.0,
    metrics={"rollout/ep_rew_mean": 12.5},
)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_pipe_gets_a_line_per_change_and_every_ten_seconds() -> None:
    """Four snapshots a second make no wall of text: a line when the state changes, then one each ten seconds."""
    stream, clock = io.StringIO(), Clock()
    board = PlainBoard(stream, clock)
    for _ in range(100):
        board.show((RUN,), 0.0)
        clock.now += 0.25
    assert len(stream.getvalue().splitlines()) == 3
    board.show((replace(RUN, state="ended", outcome="finished", timesteps=10_000),), 0.0)
    board.show((replace(RUN, state="ended", outcome="finished", timesteps=10_000),), 0.0)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "heavy  rollout  25%  2,500/10,000 steps  1,234 steps/s  ETA 1m01  return 12.5"
    assert lines[3:] == ["heavy  finished  100%  10,000/10,000 steps  return 12.5"]


def test_a_timed_run_advances_with_its_seconds() -> None:
    """Without a step budget the share done is that of the duration."""
    stream = io.StringIO()
    timed = replace(RUN, total_timesteps=None, duration_s=60.0, trained_s=15.0, started_t=1000.0)
    PlainBoard(stream, Clock()).show((timed,), 1015.0)
    assert "25%  2,500 steps" in stream.getvalue()


def test_tables_stand_above_the_progress() -> None:
    """A table told to the board is printed under its title."""
    stream = io.StringIO()
    table = Table(("setting", "value"))
    table.add("ppo.n_steps", "256")
    PlainBoard(stream, Clock()).print_table("effective settings of heavy", table)
    assert stream.getvalue() == "effective settings of heavy\nsetting      value\nppo.n_steps  256\n"


def test_a_task_in_a_pipe_reports_now_and_then() -> None:
    """A short task says nothing in a pipe; a long one a line about every ten seconds."""
    stream, clock = io.StringIO(), Clock()
    with TaskBar("episodes", stream, clock) as bar:
        for done in range(1, 26):
            clock.now += 1.0
            bar.advance(done, 100, note="episodes" if done < 20 else "twice")
    assert stream.getvalue() == "episodes: 10 of 100\nepisodes: 20 of 100, twice\n"
