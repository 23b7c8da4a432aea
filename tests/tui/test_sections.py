"""The tabs of a run as lines."""

from __future__ import annotations

import pytest
from msgspec import structs
from textual.strip import Strip

from mission_tui.fleet.events.marginal_gain import MarginalGain
from mission_tui.fleet.events.metrics import RETURN, Metric
from mission_tui.fleet.events.processes import EnvWorkers, LateWorker, Pids, Placement, SlowWorker, Usage
from mission_tui.fleet.history.course import GoalView
from mission_tui.fleet.resume.verdict import Change
from mission_tui.fleet.specs.spec import Schedule
from mission_tui.fleet.views.snapshot import HeldResources
from mission_tui.ipc.replies import HistoryReply
from mission_tui.present.numbers import metric_title
from mission_tui.present.run_settings import settings
from mission_tui.tui.drawing.glyphs import to_ascii
from mission_tui.tui.screens.sheets import result_rows
from mission_tui.tui.sections.details import Other, checkpoints, config, difference, episodes, stacked, usage_lines
from mission_tui.tui.sections.health import health
from mission_tui.tui.sections.tabs import learn
from mission_tui.tui.state.history import MetricSummary, metric_tags
from mission_tui.tui.state.run_data import LogTail, RunData
from mission_tui.tui.state.run_status import key_metrics
from tests.tui.fake_client import a_spec, details
from tests.tui.fleets import BUSY, ENDED, GIB, KL_FINDING, LIVE, NOW, a_run, ended, queued


def text(strips: list[Strip]) -> str:
    return "\n".join(strip.text.rstrip() for strip in strips)


def test_learn_draws_a_chart_where_there_is_room() -> None:
    """Short: the whole run in a line. Tall: a chart of it on its axes. Never more than the height."""
    for height in range(1, 30):
        strips = learn(LIVE[0], None, 80, height, NOW)
        assert len(strips) <= height
        assert all(strip.cell_length == 80 for strip in strips)
    assert "return     12.4 ▁▁▂" in text(learn(LIVE[0], None, 80, 6, NOW))
    shown = text(learn(LIVE[0], None, 80, 14, NOW))
    assert all(words in shown for words in ("best 12.9 at 11.4M", "goal 14 in 1-3h", "┤", "10M"))


@pytest.mark.parametrize("width", range(2, 40))
def test_learn_draws_no_chart_where_its_axis_takes_all_the_width(width: int) -> None:
    """A terminal that is being resized may have any."""
    assert len(learn(LIVE[0], None, width, 14, NOW)) <= 14


def test_learn_says_both_phases_or_neither() -> None:
    """Half of `0.41s + 0.12s` would be another figure."""
    for width in range(40, 100):
        first = learn(LIVE[0], None, width, 8, NOW)[0].text
        assert ("rollout" in first) == ("+ update 0.12s" in first), first
    assert "rollout 0.41s + update 0.12s" in learn(LIVE[0], None, 80, 8, NOW)[0].text


def test_learn_puts_trouble_before_outcomes() -> None:
    """A finding with cause and advice takes the place of the episodes' shares."""
    assert "episodes: captured 61%   timeout 30%   stalled 9%" in text(learn(LIVE[0], None, 80, 8, NOW))
    shown = text(learn(LIVE[1], None, 80, 8, NOW))
    assert "(since update 1,204)" in shown
    assert "advice fewer epochs" in shown
    assert "episodes" not in shown
    told = structs.replace(KL_FINDING, severity="info", sentence="resumed as it was", advice="", advice_set=())
    resumed = structs.replace(LIVE[1], findings=(told,))
    for lines in (learn(resumed, None, 80, 8, NOW), health(resumed, None, 80, NOW)):
        assert "resumed as it was" in text(lines)
        assert "advice" not in text(lines)


def test_charts_beside_each_other_have_one_axis_and_whole_titles() -> None:
    """One may be an update ahead of another, and words that are cut would run into the next title."""

    def course(updates: int, tag: str) -> HistoryReply:
        ends = tuple(range(1, updates + 1))
        values = tuple(float(end) for end in ends)
        steps = tuple(4096 * end for end in ends)
        return HistoryReply(
            re=1, run=LIVE[0].id, updates=ends, timesteps=steps, t=values, low={tag: values}, high={tag: values}
        )

    known = {RETURN: course(128, RETURN), "train/approx_kl": course(130, "train/approx_kl")}
    goal = GoalView(of="return", value=475.0, source="environment")
    view = a_run("a", goal=goal, metrics={RETURN: 128.0, "train/approx_kl": 130.0})
    shown = text(learn(view, RunData("a", LogTail("a"), history=known), 160, 30, NOW)).split("\n")
    (axis,) = (row for row in shown if row.count("200k") == 2)
    first, second = axis[:80], axis[80:]
    assert first.index("400k") - first.index("200k") == second.index("400k") - second.index("200k")
    ghost, ghosts = ended("x" * 60, 9), {RETURN: course(9, RETURN)}
    haunted = RunData("a", LogTail("a"), history=known, ghost=ghost, ghost_word="best", ghosts=ghosts)
    (title,) = (row for row in text(learn(view, haunted, 160, 30, NOW)).split("\n") if "approx KL" in row)
    assert "goal 475" in title
    assert title.index("approx KL") == 81
    assert "xxx" not in title


def test_learn_of_a_waiting_run_says_what_it_waits_for() -> None:
    """There is nothing to draw yet."""
    assert text(learn(queued("a"), None, 80, 6, NOW)).strip() == "needs 3.1G"


def test_learn_of_an_ended_run_begins_with_its_end() -> None:
    """The cause comes first."""
    assert text(learn(ENDED[1], None, 80, 6, NOW)).startswith(" failed (nan): policy loss became nan at update 311")


def test_health_shows_past_findings_in_one_line() -> None:
    """What is over stays to be read, below what is open."""
    cleared = structs.replace(KL_FINDING, id="x", state="cleared", sentence="entropy fell")
    shown = text(health(a_run("a", findings=(cleared, KL_FINDING)), None, 80, NOW))
    assert shown.index("KL outside") < shown.index("cleared entropy fell (updates 1,204-1,403)")


def test_health_is_calm_when_there_is_nothing() -> None:
    """And says when there is nothing to judge yet."""
    assert "ok: no rule has anything to say" in text(health(LIVE[0], None, 80, NOW))
    assert "nothing to judge before the first update" in text(health(queued("a"), None, 80, NOW))


def test_advice_comes_with_the_words_to_type() -> None:
    """The exact assignment stands behind the sentence, ready for `--set`."""
    assert "fewer epochs --set ppo.n_epochs=10" in text(health(a_run("a", findings=(KL_FINDING,)), None, 80, NOW))


def test_settings_join_asked_and_effective_values() -> None:
    """Also those that only one side knows; the tables come in the order of a preset."""
    rows = {name: (asked, ran, why) for name, asked, ran, why in settings(a_spec(), details(1, LIVE[0]).effective)}
    assert rows["ppo.learning_rate"] == ("0.0003", "0.00025", "")
    assert rows["env.vec"] == ("auto", "native", "one step takes 9 us: cheaper in the trainer than in a worker")
    assert rows["host.torch"] == (None, "2.13.0", "")
    assert "ppo.target_kl" not in rows
    assert list(rows).index("env.id") < list(rows).index("ppo.gamma") < list(rows).index("host.torch")


def test_config_fits_any_width() -> None:
    """Columns shrink, nothing sticks out."""
    for width in (40, 80, 200):
        assert all(strip.cell_length == width for strip in config(details(1, LIVE[0]), width))


def test_config_has_reasons_beside_values_where_there_is_room() -> None:
    """A wide screen would else be two thirds empty, and its list longer than it is high."""
    wide, narrow = text(config(details(1, LIVE[0]), 200)).split("\n"), text(config(details(1, LIVE[0]), 80)).split("\n")
    reason = "one step takes 9 us: cheaper in the trainer than in a worker"
    assert [row.split()[0] for row in wide if row.endswith(reason)] == ["env.vec"]
    assert wide[0].split() == ["setting", "asked", "runs", "with", "why"]
    assert len(wide) < len(narrow)


def test_config_says_on_which_gpu_and_why() -> None:
    """Only where it was chosen."""
    placed = structs.replace(details(1, LIVE[0]), view=structs.replace(LIVE[0], placed=Placement("GPU-b", 1, "calm")))
    assert text(config(placed, 80)).startswith(" on GPU1: calm")
    assert "on GPU" not in text(config(details(1, LIVE[0]), 80))


def test_checkpoints_of_a_narrow_screen_have_fewer_columns_and_whole_ones() -> None:
    """A checkpoint's name is what one types; its size and why it was saved give way, and so do ages of evaluations."""
    judged = (
        {"checkpoint": "000303104", "mean": 6.07, "std": 0.485, "ci95": [5.89, 6.25], "episodes": 30, "won": 1.0},
    )
    known = structs.replace(details(1, LIVE[0]), evaluations=judged)
    narrow, wide = text(checkpoints(known, 59, NOW)), text(checkpoints(known, 120, NOW))
    assert "…" not in narrow
    assert all(row.name in narrow for row in known.checkpoints)
    assert "6.07 ± 0.485  5.89 to 6.25" in narrow
    assert ("30 episodes" in narrow, "30 episodes" in wide) == (False, True)


def test_empty_tables_are_sentences() -> None:
    """A young run has neither checkpoints nor evaluations."""
    bare = structs.replace(details(1, LIVE[0]), attempts=(), checkpoints=(), evaluations=())
    shown = text(checkpoints(bare, 80, NOW))
    heads = (" no checkpoint yet;", " no attempt yet:", " no evaluation yet;")
    assert all(row.startswith(head) for row, head in zip(shown.split("\n"), heads, strict=True))


def test_why_an_attempt_ended_and_what_was_changed_for_it_are_two_sentences() -> None:
    """Of `stopped by you ppo.gamma 0.9 → 0.99` nobody sees where one ends."""
    known = details(1, LIVE[0])
    last = structs.replace(
        known.attempts[0],
        cause="stopped by you",
        changes=(Change(name="ppo.gamma", was="0.9", now="0.99", grade="note", why=""),),
    )
    shown = text(checkpoints(structs.replace(known, attempts=(last,)), 120, NOW))
    assert "stopped by you; ppo.gamma 0.9 → 0.99" in shown


def test_an_odd_evaluation_file_is_shown_as_it_is() -> None:
    """Another program may have written it; nothing crashes on a word where a number should be."""
    odd = structs.replace(details(1, LIVE[0]), evaluations=({"mean": "many", "ci95": None, "won": "yes"},))
    assert "many ± -" in text(checkpoints(odd, 80, NOW))
    assert result_rows({"mean": "many"}, 80)


def test_an_evaluation_is_read_to_its_end_on_a_narrow_screen() -> None:
    """The reel's seeds are last in their lines, and are what plays an episode again."""
    one = {"return": 6.69, "steps": 65, "outcome": "early_success", "seed": 10023}
    rows = ["".join(part for part, _ in row) for row in result_rows({"mean": 6.0, "reel": {"best": one}}, 54)]
    assert max(map(len, rows)) <= 54
    assert "best episode return 6.69 in 65 steps, early_success, seed 10023" in " ".join(" ".join(rows).split())


def test_metrics_come_in_the_order_of_interest() -> None:
    """Return first, then what one looks at next, then the rest by name; an unknown one is its own title."""
    view = a_run("a", metrics={"zeta": 1.0, "train/approx_kl": 0.1, "alpha": 1.0, "rollout/ep_rew_mean": 1.0})
    assert metric_tags(view) == [
        "rollout/ep_rew_mean", "rollout/ep_len_mean", "train/approx_kl", "steps_per_s", "alpha", "zeta",
    ]  # fmt: skip
    assert metric_title("zeta") == "zeta"


def test_metrics_that_an_algorithm_has_not_are_not_listed() -> None:
    """SAC has no KL: a snapshot carries its series all the same, without a value."""
    metrics: dict[str, Metric] = {"train/critic_loss": 1.0, "train/actor_loss": 8.0, "rollout/ep_rew_mean": -1255.0}
    view = a_run("a", metrics=metrics, series={"rollout/ep_rew_mean": (-1255.0,), "train/approx_kl": (None,)})
    assert metric_tags(view) == ["rollout/ep_rew_mean", "train/critic_loss", "train/actor_loss"]
    assert [metric_title(tag) for tag in metric_tags(view)] == ["return", "critic loss", "actor loss"]
    assert "".join(words for words, _ in key_metrics(view, 80)).split("   ")[:2] == [
        "critic loss 1.00",
        "actor loss 8.00",
    ]


def test_learn_says_what_the_run_brought() -> None:
    """In a sentence below the rest; nothing of one that began alone, or whose effect nobody could measure."""
    gain = MarginalGain(NOW, "joined", "costs", 2, 1, 1000.0, 960.0, -0.04, -0.07, -0.01, full="cores")
    shown = text(learn(a_run("a", payoff=gain), None, 80, 8, NOW))
    assert "together: it joined: -4 %: the cores are full; stop one (-7 to -1; 1,000 -> 9" in " ".join(shown.split())
    for verdict in ("first", "swapped"):
        unknown = structs.replace(gain, verdict=verdict)
        assert "together" not in text(learn(a_run("a", payoff=unknown), None, 80, 8, NOW))


def test_the_setting_that_is_advised_is_the_last_to_be_cut() -> None:
    """Where there is a line to spare it is the advice's, whose end is what to type."""
    long = structs.replace(
        KL_FINDING, sentence="a long story " * 12, advice="what to do " * 7, advice_set=("ppo.n_epochs=10",)
    )
    shown = text(learn(a_run("a", findings=(long,)), None, 80, 8, NOW))
    assert "--set ppo.n_epochs=10" in shown


def test_what_a_run_takes_is_split_into_phases_and_processes() -> None:
    """The newest update as a bar of two shapes, what all processes use, and their numbers; never wider than asked."""
    shown = text(usage_lines(BUSY.runs[0], 80))
    split = shown.splitlines()[0]
    assert split.split()[:3] == ["time", "rollout", "0.41s"]
    assert split.endswith(" 0.12s update, 23%")
    bar = split.count("▓") + split.count("░")
    assert abs(split.count("░") / bar - 0.12 / 0.53) < 1 / bar
    for fact in ("312%  as much as 3.1 cores", "3.1G", "19 in 9 processes", "keeper 10, trainer 11", "8: 12 13 14"):
        assert fact in shown
    many = structs.replace(BUSY.runs[0], pids=Pids(1, 2, tuple(range(100_000, 100_064))))
    assert all(strip.cell_length == 60 for strip in usage_lines(many, 60))
    assert "100063" in text(usage_lines(many, 60))


def test_a_run_that_is_not_on_the_machine_takes_nothing() -> None:
    """Old figures of an ended run are not shown as if they were so now; a frozen one holds what it holds."""
    over = structs.replace(ENDED[0], usage=Usage(99.0, GIB, 3, 1))
    assert "99%" not in text(usage_lines(over, 80))
    assert "not on the machine: finished" in text(usage_lines(over, 80))
    assert text(usage_lines(queued("later-0001"), 80)).strip() == "not on the machine: queued"
    frozen = structs.replace(LIVE[0], state="frozen", held=HeldResources(2 * GIB, gpu=True, vram_bytes=GIB))
    assert "held      2.0G and 1.0G of GPU memory while it is frozen" in text(usage_lines(frozen, 80))
    assert "none: its environments are stepped in the trainer" in text(
        usage_lines(structs.replace(LIVE[0], pids=Pids(1, 2)), 80)
    )


def test_what_a_run_takes_names_its_late_workers() -> None:
    """Since when, and where it stands; with what is known of files and disks."""
    usage = Usage(50.0, GIB, 3, 2, None, pss_bytes=GIB // 2, written_bytes=GIB // 4, open_files=12, gpu_percent=7.0)
    workers = EnvWorkers(4, 1, (LateWorker(2, 4711, 31.0),))
    shown = text(usage_lines(structs.replace(LIVE[0], usage=usage, workers=workers), 80))
    for fact in (
        "PSS       512M",
        "GPU       7%  of the time a kernel of it ran",
        "written   256M",
        "files     12 open",
    ):
        assert fact in shown
    assert "▲ worker 2 of 4 has not answered for 31 s (pid 4711)" in shown


def test_where_a_run_computes_is_said_with_the_reason() -> None:
    """On the CPU, or on a GPU that its share of memory and time says nothing certain of."""
    why = "this net is faster on the CPU: 3.1 x (95 % interval 2.9 to 3.3; about 3 ms per update on the CPU)"
    effective = {"run": {"device": "cpu"}, "reasons": {"run.device": why}}
    shown = text(usage_lines(LIVE[0], 80, effective=effective)).splitlines()
    assert " device    cpu  this net is faster on the CPU: 3.1 x" in shown
    assert " device    cuda:0" in text(usage_lines(LIVE[0], 80, effective={"run": {"device": "cuda:0"}})).splitlines()
    assert "device" not in text(usage_lines(LIVE[0], 80))
    assert all(strip.cell_length == 24 for strip in usage_lines(LIVE[0], 24, effective=effective))


def test_phases_come_with_what_they_took_over_the_whole_run() -> None:
    """Newest, least and most, and their course; in which it is since when; nothing of what was not asked for."""
    summaries = {"rollout_s": MetricSummary((0.3, 0.5), 0.3, 0.5), "update_s": MetricSummary((0.1, 0.2), 0.1, 0.2)}
    lines = [strip.text.split() for strip in usage_lines(LIVE[0], 80, summaries, NOW)]
    assert ["phase", "rollout", "for", "1s"] in lines
    assert ["rollout", "0.41s", "0.3s", "0.5s", "▁█"] in lines
    assert ["update", "0.12s", "0.1s", "0.2s", "▁█"] in lines
    assert "whole run" not in text(usage_lines(LIVE[0], 80))


def test_env_workers_are_told_one_by_one() -> None:
    """With a bar as long as a step takes; a slow and a late one have a shape before them. All of them, at any width."""
    slow = SlowWorker(2, 103, 0.004, 0.001)
    workers = EnvWorkers(5, 1, (LateWorker(3, 104, 31.0),), slow, (101, 102, 103, 104), (0.001, 0.002, 0.004, 0.001))
    view = structs.replace(LIVE[0], workers=workers)
    shown = text(usage_lines(view, 44)).splitlines()
    (usual,) = [line for line in shown if line.split()[:2] == ["0", "101"]]
    (slowest,) = [line for line in shown if line.split()[:3] == ["▲", "2", "103"]]
    assert slowest.count("▓") == 4 * usual.count("▓") > 0
    assert "4 ms" in slowest
    assert any(line.split()[:5] == ["▲", "3", "104", "late", "31s"] for line in shown)
    assert "and 1 more" in shown[-1]
    for width in (30, 60, 80, 160, 400):
        assert all(strip.cell_length == width for strip in usage_lines(view, width))
        assert "104" in text(usage_lines(view, width))
    assert len(usage_lines(view, 160)) < len(usage_lines(view, 44))


def counted(outcomes: dict[str, tuple[int, ...]], ended: tuple[int, ...]) -> HistoryReply:
    """The answer for a run of as many buckets of one update."""
    updates = tuple(range(1, len(ended) + 1))
    return HistoryReply(
        re=1, run="r", updates=updates, timesteps=updates, t=tuple(map(float, updates)), low={}, high={},
        episodes=ended, outcomes=outcomes,
    )  # fmt: skip


def test_outcomes_are_stacked_from_the_first_at_the_bottom() -> None:
    """A column for each stretch, as high as the shares in it; where nothing ended it is blank."""
    rows = stacked({"lost": (1, 0, 3), "won": (3, 0, 1)}, (4, 0, 4), 6, 4)
    assert ["".join(part for part, _ in parts) for parts in rows] == ["░░  ░░", "░░  ██", "░░  ██", "██  ██"]


def test_outcomes_are_told_apart_without_colours_and_unicode() -> None:
    """Each has a fill of its own in plain letters as well, which stands before its name."""
    names = ("a", "b", "c", "d", "e", "f")
    lines = episodes(LIVE[0], counted(dict.fromkeys(names, (1,)), (6,)), "", 80, 30)
    fills = [to_ascii(strip.text)[1] for strip in lines if strip.text[3:4] in names]
    assert len(set(fills)) == len(names)
    assert [to_ascii(strip.text)[10] for strip in lines[::4]][:6] == fills


def test_outcomes_come_with_their_shares_of_late_and_of_all() -> None:
    """And what ended without a name is counted too; nothing sticks out, and 80 by 24 is enough."""
    history = counted({"captured": (10, 30), "timeout": (30, 10)}, (50, 50))
    lines = episodes(LIVE[0], history, "", 80, 18)
    assert len(lines) <= 18
    assert all(strip.cell_length == 80 for strip in lines)
    shown = [" ".join(strip.text.split()) for strip in lines]
    assert "█ captured 61% 40% 40" in shown
    assert "━ not named - 20% 20" in shown
    assert "update 1 2" in shown


def test_without_outcomes_it_says_what_there_is() -> None:
    """No answer yet, why there is none, no episode yet, or an environment that names none."""
    assert text(episodes(LIVE[0], None, "", 80, 18)) == " asking…"
    assert text(episodes(LIVE[0], None, "the run is gone", 80, 18)) == " the run is gone"
    assert (
        text(episodes(LIVE[0], counted({}, (0, 0)), "", 80, 18)) == " no episode has ended yet; l shows what it prints"
    )
    assert "6 episodes ended, without outcomes" in text(episodes(LIVE[0], counted({}, (4, 2)), "", 80, 18))


def test_an_empty_tab_says_what_to_press() -> None:
    """Or why nothing will ever stand there: a command keeps its own checkpoints, and what ended begins anew."""
    living = structs.replace(details(1, LIVE[0]), checkpoints=(), evaluations=())
    assert "C saves one" in text(checkpoints(living, 80, NOW))
    assert "e plays 100 episodes" in text(checkpoints(living, 80, NOW))
    lost = structs.replace(living, view=structs.replace(ENDED[1], last_checkpoint=None))
    assert "N starts a run like it" in text(checkpoints(lost, 80, NOW))
    assert "that needs a checkpoint" in text(checkpoints(lost, 80, NOW))
    command = structs.replace(living, view=a_run("loop", can=()))
    assert "C saves" not in text(checkpoints(command, 80, NOW))
    none = HistoryReply(re=1, run="a", updates=(1,), timesteps=(1,), t=(NOW,), low={}, high={}, episodes=(0,))
    assert "l shows what it prints" in text(episodes(LIVE[0], none, "", 80, 10))
    assert "its command has reported no episodes" in text(episodes(command.view, none, "", 80, 10))


def test_nothing_of_an_ended_run_is_now() -> None:
    """A finding that was open to the end has a last update, like one that was cleared."""
    over = text(health(structs.replace(ENDED[0], findings=(KL_FINDING,)), None, 80, NOW))
    assert "updates 1,204-1,403, to its last update" in over
    assert "so far" not in over
    assert "so far" in text(health(a_run("a", findings=(KL_FINDING,)), None, 80, NOW))


def test_a_schedule_is_one_setting() -> None:
    """`0.001 → 0 linear`, and it differs from a constant that runs with the same value now."""
    spec = a_spec()
    falling = structs.replace(spec, ppo=structs.replace(spec.ppo, learning_rate=Schedule(start=0.001)))
    constant = structs.replace(spec, ppo=structs.replace(spec.ppo, learning_rate=0.001))
    effective = {"ppo": {"learning_rate": 0.001}}
    rows = {name: (asked, ran) for name, asked, ran, _ in settings(falling, effective)}
    assert rows["ppo.learning_rate"] == ("0.001 → 0 linear", "0.001")
    assert not any(name.startswith("ppo.learning_rate.") for name in rows)
    shown = structs.replace(details(1, LIVE[0]), spec=falling, effective=effective)
    text = "\n".join(strip.text for strip in difference(shown, Other("b", constant, effective, run=True), 100))
    assert "ppo.learning_rate" in text
    assert "0.001 → 0 linear" in text
