"""Counts of episodes beside the columns of a run: summed in buckets, dropped with the rows, bounded."""

from __future__ import annotations

from mission_tui.fleet.events.metrics import Episodes, UpdateDone
from mission_tui.fleet.history.series import EPISODES, MOST_OUTCOMES, OTHERS, Columns, Thinned


def row(update: int, n: int, **outcomes: int) -> UpdateDone:
    """An update in which `n` episodes ended."""
    return UpdateDone(
        update, 1, update, 100 * update, float(update), 1.0, 1.0, 50.0, episodes=Episodes(n, outcomes=outcomes)
    )


def told(columns: Columns, points: int = 100) -> Thinned:
    """Their counts in at most `points` buckets."""
    return columns.thin((EPISODES,), 0, None, points)


def test_counts_are_summed_in_the_buckets_of_the_curves() -> None:
    """Nothing is thinned away: over all buckets it is what ended, known by name or not."""
    columns = Columns()
    for update in range(1, 11):
        columns.append(row(update, 3, won=1, **({"lost": 2} if update > 6 else {})))
    thinned = told(columns, 5)
    assert thinned.updates == (2, 4, 6, 8, 10)
    assert thinned.episodes == (6,) * 5
    assert thinned.outcomes == {"lost": (0, 0, 0, 4, 4), "won": (2,) * 5}
    assert thinned.low == {}
    assert columns.thin(("steps_per_s",), 0, None, 5).episodes == ()


def test_a_rewind_takes_the_counts_back_with_the_rows() -> None:
    """What was played after the checkpoint is played again, and must not count twice."""
    columns = Columns()
    for update in range(1, 7):
        columns.append(row(update, 1, won=1) if update < 5 else row(update, 1, lost=1))
    columns.rewind(4)
    assert told(columns).outcomes == {"won": (1, 1, 1, 1)}
    columns.append(row(5, 2, won=2))
    assert told(columns).outcomes == {"won": (1, 1, 1, 1, 2)}
    columns.keep_last(2)
    assert (told(columns).updates, told(columns).episodes) == ((4, 5), (1, 2))


def test_who_invents_outcomes_cannot_eat_our_memory() -> None:
    """From the seventeenth on they are told together, and counts that are none do no harm."""
    columns = Columns()
    for update in range(1, 41):
        columns.append(row(update, 1, **{f"name{update}": 1}))
    thinned = told(columns, 1)
    assert len(thinned.outcomes) == MOST_OUTCOMES + 1
    assert thinned.outcomes[OTHERS] == (40 - MOST_OUTCOMES,)
    columns.append(row(41, -5, name1=-(10**30)))
    columns.append(row(42, 10**30, **{"\x1b[2Jodd": 10**30}))
    assert "odd" not in told(columns, 1).outcomes
    assert told(columns, 42).episodes[-2:] == (0, 1 << 24)
