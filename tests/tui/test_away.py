"""Coming back: what happened meanwhile is counted from the snapshot, stands below the meters, and is gone with Esc."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from mission_tui.fleet.views.snapshot import AutoRestart, RunView
from mission_tui.ipc.replies import HistoryReply
from mission_tui.ipc.requests import GetHistory
from mission_tui.tui.state.news import GRACE_S, Away, while_away
from tests.tui.fleets import ENDED, LIVE, NAN_FINDING, NOW, a_fleet, a_run, ended
from tests.tui.stage import Stage, staged

LEFT = NOW - 6 * 3600


def away(*runs: RunView, since_t: float = LEFT) -> Away | None:
    """What a fleet of `runs` tells somebody who left at `since_t` and comes back now."""
    return while_away(a_fleet(runs), since_t, NOW)


def told(*runs: RunView) -> str:
    """The part of the sentence after the time."""
    found = away(*runs)
    assert found is not None
    return found.sentence.partition("): ")[2]


def history(request: GetHistory) -> HistoryReply:
    """A curve whose best is 7.5 at update 20, and which ends at 3.25."""
    highs: tuple[Any, ...] = (1.0, 7.5, "nan", None, 3.25)
    return HistoryReply(
        re=request.id,
        run=request.run,
        updates=(10, 20, 30, 40, 50),
        timesteps=(1, 2, 3, 4, 5),
        t=(1.0, 2.0, 3.0, 4.0, 5.0),
        low=dict.fromkeys(request.series, highs),
        high=dict.fromkeys(request.series, highs),
    )


async def come_back(stage: Stage, *runs: RunView) -> None:
    """The supervisor that was started for this screen knows `runs` a second later."""
    stage.client.answers[GetHistory] = history
    await stage.arrive(a_fleet(runs, revision=2))


def test_nothing_is_said_when_nothing_happened() -> None:
    """Neither on the first visit nor after a quiet night."""
    assert while_away(a_fleet(), None, NOW) is None
    assert while_away(a_fleet((LIVE[0], *ENDED)), NOW - 60, NOW) is None


def test_ends_are_counted_by_kind() -> None:
    """What failed, was lost and was parked is said beside the number of all that ended."""
    parked = structs.replace(ended("p", 30), state="parked", outcome="stopped")
    runs = (ended("a", 10), ended("b", 20, "failed", kind="nan"), ended("c", 25, "lost"), parked, ended("old", 600))
    assert told(*runs) == "4 ended (1 failed, 1 lost, 1 parked)"


def test_what_began_by_itself_is_counted_by_what_it_followed() -> None:
    """Each restart of the time away, and none of before; the run itself lives."""
    again = (
        AutoRestart(LEFT - 1, "failure"),
        AutoRestart(LEFT + 1, "failure"),
        AutoRestart(NOW - 5, "failure"),
        AutoRestart(NOW - 1, "reboot"),
    )
    assert told(a_run("a", again=again)) == "2 restarts, 1 resumed after a reboot"
    assert told(a_run("a", again=(AutoRestart(NOW - 5, "failure"),))) == "1 restart"


def test_findings_are_those_that_opened_meanwhile() -> None:
    """Over or not, but neither information nor what somebody has dealt with."""
    over = structs.replace(NAN_FINDING, id="o", state="cleared")
    known = structs.replace(NAN_FINDING, id="k", state="acknowledged")
    info = structs.replace(NAN_FINDING, id="i", severity="info")
    before = structs.replace(NAN_FINDING, id="b", first_t=LEFT - 10)
    assert told(a_run("a", findings=(NAN_FINDING, over, known, info, before))) == "2 findings (1 open)"
    assert told(a_run("a", findings=(NAN_FINDING,))) == "1 finding"
    assert told(a_run("a", findings=(over,))) == "1 finding (over)"


def test_what_a_supervisor_does_on_waking_belongs_to_the_time_away() -> None:
    """A resume two seconds after one came back was due before; one after the grace was seen by the person."""
    assert told(a_run("a", again=(AutoRestart(NOW + 2, "reboot"),))) == "1 resumed after a reboot"
    assert away(a_run("a", again=(AutoRestart(NOW + GRACE_S + 1, "reboot"),))) is None


def test_more_ends_than_a_snapshot_shows_are_not_called_all() -> None:
    """Of a snapshot that holds only runs that ended meanwhile, there may be more."""
    runs = tuple(ended(f"r{n}", 5) for n in range(200))
    found = while_away(structs.replace(a_fleet(runs), ended_total=300), LEFT, NOW)
    assert found is not None
    assert "200 or more ended" in found.sentence


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_it_stands_below_the_meters_until_esc(size: tuple[int, int]) -> None:
    """Since when, the counts, the best returns of the files; the list stays usable, and Esc gives the rows back."""
    async with staged(a_fleet((LIVE[0],)), last_seen_t=NOW - 6000, size=size) as stage:
        await come_back(stage, *LIVE, *ENDED)
        await stage.shows("While you were away since ")
        await stage.shows("2 ended (1 failed), 1 finding")
        await stage.shows("best return")
        await stage.shows("cart-9a10 7.50")
        assert "M all of it  Esc close" in stage.text()
        await stage.press("/", "w", "i", "d", "e", "enter")
        in_strip = int(size[0] >= 160)
        await stage.until(lambda: stage.text().count("heavy-3f9a") == in_strip, "the list is still usable")
        await stage.press("escape")
        await stage.until(lambda: "While you were away" not in stage.text())
        assert stage.lines()[2].strip() != ""


async def test_what_ended_at_other_roots_stands_there_too() -> None:
    """Beside what happened here, and alone; it is looked up after the first picture, and Esc gives the rows back."""
    said = "2 runs ended elsewhere since you last looked: mission-tui --runs-dir /data/night"
    async with staged(a_fleet((LIVE[0],)), elsewhere=lambda: [said], size=(120, 30)) as stage:
        await stage.shows(said)
        assert "M all of it" not in stage.text()
        await stage.press("escape")
        await stage.until(lambda: "/data/night" not in stage.text())
    async with staged(a_fleet((LIVE[0],)), last_seen_t=NOW - 6000, elsewhere=lambda: [said]) as stage:
        await come_back(stage, *LIVE, *ENDED)
        await stage.shows("2 ended (1 failed), 1 finding")
        await stage.shows("2 runs ended elsewhere")
        await stage.shows("M all of it  Esc close")


async def test_m_tells_it_run_by_run() -> None:
    """In order of time, with the cause of each end and the best return; also after the lines were closed."""
    again = (AutoRestart(NOW - 3000, "failure"), AutoRestart(NOW - 2000, "reboot"))
    runs = (a_run("heavy-3f9a", again=again, findings=(NAN_FINDING,)), *ENDED[:2])
    async with staged(a_fleet((LIVE[0],)), last_seen_t=NOW - 6000) as stage:
        await come_back(stage, *runs)
        await stage.shows("best return")
        await stage.press("escape", "M")
        await stage.shows("resumed by itself after a reboot")
        text = stage.text()
        assert "restarted by itself after a failure" in text
        assert "critical: train/value_loss is nan at update 1,398" in text
        assert "failed: policy loss became nan at update 311" in text
        assert "best return 7.50 at update 20" in text


async def test_m_after_a_quiet_night_says_so() -> None:
    """Nothing to show is one sentence."""
    async with staged() as stage:
        await stage.press("M")
        await stage.until(lambda: "nothing happened while you were away" in stage.toasts())


async def test_a_screen_of_nobody_before_tells_nothing() -> None:
    """On the first visit everything is new."""
    async with staged() as stage:
        await stage.shows("heavy-3f9a")
        assert "While you were away" not in stage.text()
