"""The whole run in a few stretches, its best, its goal, and how long both still take."""

from __future__ import annotations

import math
import random
import statistics
from itertools import pairwise

from msgspec import structs

from mission_tui.fleet.events.journal import AttemptEnded, AttemptStarting, GoalReached, RunPaused
from mission_tui.fleet.events.metrics import Episodes, EvaluationDone, TrainingStarted
from mission_tui.fleet.events.outcome import Stopped
from mission_tui.fleet.history.course import MOST_STRETCHES, GoalView, ValueAtUpdate, pace_of, steps_to
from mission_tui.fleet.specs.spec import RunSpec
from mission_tui.fleet.store import Store
from mission_tui.fleet.views.snapshot import RunView
from tests.fleet.recorded import SPEC, STEPS, empty_store, update

RUN = "20261121-104207-demo-3f9a"


def trained(
    *returns: float, goal: float | str | None = None, threshold: float | None = None, steps: int = 10_000_000
) -> Store:
    """A store with a running run that reported these returns, one an update."""
    store = empty_store()
    spec = structs.replace(SPEC, run=RunSpec(total_timesteps=steps, goal=goal))
    store.add_run(RUN, f"/lab/runs/{RUN}", spec)
    store.apply(RUN, AttemptStarting(1, 91.0, 1))
    store.apply(RUN, TrainingStarted(1, 1, 92.0, reward_threshold=threshold))
    for number, value in enumerate(returns, 1):
        store.apply(RUN, update(number, ret=value))
    return store


def goal_of(view: RunView) -> GoalView:
    """Its goal, which it must have."""
    assert view.goal is not None
    return view.goal


def test_the_course_holds_the_whole_run_and_its_shortest_collapse() -> None:
    """A thousand updates are at most 64 stretches, and the one update at -9 is still in them."""
    view = trained(*(-9.0 if number == 70 else number / 10 for number in range(1000))).view(RUN)
    assert view.course is not None
    assert len(view.course.low) <= MOST_STRETCHES
    assert view.course.every * len(view.course.low) >= 1000
    assert (min(it for it in view.course.low if isinstance(it, float)), view.course.high[-1]) == (-9.0, 99.9)


def test_what_is_past_of_a_course_stays_as_it_is() -> None:
    """A further row changes the last stretch, or adds one: nothing flickers."""
    store = trained(*map(float, range(200)))
    before = store.view(RUN).course
    store.apply(RUN, update(201, ret=-5.0))
    after = store.view(RUN).course
    assert before is not None
    assert after is not None
    assert before.low[:-1] == after.low[: len(before.low) - 1]
    assert after.low[-1] == -5.0


def test_a_rewind_takes_back_best_and_goal() -> None:
    """A resume from before them: they have not happened."""
    store = trained(*map(float, range(50)), goal=40)
    assert store.view(RUN).best == ValueAtUpdate(49.0, 50, 50 * STEPS)
    assert goal_of(store.view(RUN)).reached == ValueAtUpdate(40.0, 41, 41 * STEPS)
    store.apply(RUN, TrainingStarted(60, 2, 200.0, from_update=20, from_timesteps=20 * STEPS))
    assert store.view(RUN).best == ValueAtUpdate(19.0, 20, 20 * STEPS)
    assert goal_of(store.view(RUN)).reached is None


def test_a_row_before_the_first_episode_is_not_the_best_for_long() -> None:
    """A script reports its first row before an episode has ended: that row stayed the best for a hundred episodes."""
    store = trained(0.0)
    for number in range(2, 30):
        row = update(number, ret=float(number))
        store.apply(RUN, structs.replace(row, episodes=Episodes(n=1, r=(float(number),), l=(10,))))
    assert store.view(RUN).best == ValueAtUpdate(29.0, 29, 29 * STEPS)


def test_the_mean_of_a_few_episodes_is_neither_best_nor_the_goal() -> None:
    """Gymnasium's threshold is about a hundred episodes: three lucky ones at the beginning are not that."""
    store = trained(threshold=475.0)
    for number, (value, ended) in enumerate([(500.0, 3), (20.0, 90), (30.0, 90), (480.0, 90)], 1):
        store.apply(RUN, structs.replace(update(number, ret=value), episodes=Episodes(n=ended)))
        if number == 3:
            assert store.view(RUN).best == ValueAtUpdate(30.0, 3, 3 * STEPS)
            assert goal_of(store.view(RUN)).reached is None
    assert goal_of(store.view(RUN)).reached == ValueAtUpdate(480.0, 4, 4 * STEPS)


def test_the_goal_is_the_runs_own_before_the_environments() -> None:
    """`run.goal` where it is given, else the reward threshold, else none."""
    own = goal_of(trained(1.0, goal=300, threshold=475.0).view(RUN))
    assert (own.value, own.source, own.words) == (300.0, "run.goal", "300")
    assert goal_of(trained(1.0, threshold=475.0).view(RUN)).source == "environment"
    assert trained(1.0).view(RUN).goal is None


def test_a_success_rate_is_reached_by_what_evaluations_say() -> None:
    """An evaluation belongs to the update that it played, also when further ones have ended since."""
    store = trained(*map(float, range(30)), goal="success 80%")
    assert goal_of(store.view(RUN)).best is None
    for number, (played, won) in enumerate([(10, 0.4), (20, 0.85)], 40):
        store.apply(RUN, EvaluationDone(number, 1, played, played * STEPS, 140.0, 1.0, 0.1, 20, won))
    goal = goal_of(store.view(RUN))
    assert (goal.newest, goal.best, goal.reached) == (0.85, 0.85, ValueAtUpdate(0.85, 20, 20 * STEPS))


def test_what_a_run_reached_is_known_when_only_its_last_rows_are() -> None:
    """After a restart of the supervisor the journal says it, and what follows from all rows is left out."""
    store = trained(*map(float, range(80)), goal=40)
    store.apply(RUN, GoalReached(2, 150.0, 1, "40", 40.0, 41, 41 * STEPS))
    run = store.run(RUN)
    run.metrics.complete = False
    store.apply(RUN, update(81, ret=1.0))
    view = store.view(RUN)
    assert (view.course, view.best) == (None, None)
    assert goal_of(view).reached == ValueAtUpdate(40.0, 41, 41 * STEPS)


def test_a_steady_climb_says_when_it_is_there_and_noise_says_that_there_is_no_trend() -> None:
    """At 1000 steps/s a step of 1 an update of 1024 steps: 100 to go take 102 s."""
    noise = random.Random(7)
    near = goal_of(trained(*(number + noise.gauss(0, 2) for number in range(200)), goal=300).view(RUN))
    assert near.trend == "nearer"
    assert near.low_s is not None
    assert near.high_s is not None
    assert near.low_s < 101 * 1.024 < near.high_s
    flat = goal_of(trained(*(noise.gauss(50, 2) for _ in range(200)), goal=300).view(RUN))
    assert (flat.trend, flat.low_s) == ("none", None)


def test_what_comes_after_the_budget_and_what_stands_have_no_time() -> None:
    """The budget ends first; and a paused run comes no nearer."""
    climb = [float(number) for number in range(200)]
    assert goal_of(trained(*climb, goal=100_000, steps=210 * STEPS).view(RUN)).trend == "beyond"
    store = trained(*climb, goal=300)
    store.run(RUN).journal.paused = True
    store.observe_unread(1)
    store.apply(RUN, update(201, ret=200.0))
    view = store.view(RUN)
    assert (view.state, goal_of(view).trend, goal_of(view).low_s, view.eta_s) == ("paused", "", None, None)


def test_the_time_left_never_jumps_between_two_updates() -> None:
    """Neither where updates take 1 s and 20 s by turns or at random, nor where one of them stalls for ten minutes."""
    noise = random.Random(3)
    courses = {
        "by turns": [1.0 if number % 2 else 20.0 for number in range(200)],
        "at random": [noise.choice((1.0, 20.0)) for _ in range(200)],
        "a stall": [1.0] * 100 + [600.0] + [1.0] * 99,
        "slower from here on": [1.0] * 100 + [20.0] * 100,
    }
    for name, seconds in courses.items():
        paces = [pace_of([1 / it for it in seconds[max(0, end - 60) : end]]) for end in range(4, 201)]
        means = [pace.seconds for pace in paces if pace is not None]
        assert max(max(a, b) / min(a, b) for a, b in pairwise(means)) < 2.5, name
    steady = pace_of([1000.0] * 60)
    assert steady is not None
    assert steady.doubt < 0.01


def test_the_range_of_the_time_left_holds_what_it_then_took() -> None:
    """Of 300 runs whose updates take as long as chance says, nine in ten end within the range said a third before."""
    inside = 0
    for seed in range(300):
        noise = random.Random(seed)
        seconds = [math.exp(noise.gauss(0, 0.5)) for _ in range(90)]
        pace = pace_of([1 / it for it in seconds[:60]])
        assert pace is not None
        low, high = pace.span(30)
        inside += low <= sum(seconds[60:]) <= high
    assert inside / 300 > 0.85


def test_a_trend_is_a_line_that_surely_rises() -> None:
    """Too few points, no spread, a fall and a rise within the noise say nothing."""
    steps = [float(it) for it in range(20)]
    assert steps_to(30.0, steps, steps) == (11.0, 11.0)
    assert steps_to(30.0, steps[:5], steps[:5]) is None
    assert steps_to(30.0, steps, [-it for it in steps]) is None
    assert steps_to(30.0, [1.0] * 20, steps) is None
    noise = random.Random(1)
    assert steps_to(30.0, steps, [noise.gauss(0, 9) for _ in steps]) is None
    assert statistics.mean(steps_to(19.0, steps, steps) or (9.0,)) == 0.0


def test_what_happened_to_a_run_lies_between_its_rows() -> None:
    """A pause, an end and a resume are at the update before them; what lies before every row has no place."""
    store = trained(*map(float, range(10)))
    store.apply(RUN, RunPaused(2, 95.0, 1))
    store.apply(RUN, RunPaused(3, 105.5, 1))
    store.apply(RUN, AttemptEnded(4, 107.5, 1, Stopped(cause="stopped on request", checkpoint=None)))
    store.apply(RUN, AttemptStarting(5, 300.0, 2, restart=1))
    assert [(it.update, it.word) for it in store.view(RUN).moments] == [
        (5, "paused"),
        (7, "stopped"),
        (10, "restarted"),
    ]
