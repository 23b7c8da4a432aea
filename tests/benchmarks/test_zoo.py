"""The zoo's table: what a seed's mean has to reach, and what is said of tasks that are whole, partial or another's."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.campaign import Done, Job
from benchmarks.campaign import _digest as campaign_digest
from benchmarks.results import Sheet, facts_of_the_machine
from benchmarks.zoo.__main__ import _jobs as zoo_jobs
from benchmarks.zoo.__main__ import main
from benchmarks.zoo.kept import keep, kept_seeds, with_kept
from benchmarks.zoo.many_seeds import many_seeds
from benchmarks.zoo.published import TASKS, Published, Task, read_published
from benchmarks.zoo.table import Course, Measured, page, row_of
from mission_tui.errors import UsageError

DOCS = Path(__file__).parents[2] / "docs"
CARTPOLE = TASKS[0]
LANDER = next(task for task in TASKS if task.env != task.zoo_env)
STOCK = next(task for task in TASKS if task.engine)
REPEAT = next(task for task in TASKS if task.repeat)
ROWS = (
    "algo,env_id,mean_reward,std_reward,n_timesteps,eval_timesteps,eval_episodes\na2c,CartPole-v1,1.0,0.0,1,1,1\n"
) + "".join(f"ppo,{task.zoo_env},500.000,0.000,100k,150000,300\n" for task in TASKS)


def measured(*means: float | None, task: Task = CARTPOLE) -> Measured:
    """A task whose seeds came to these means; None is a seed that is not done."""
    jobs = tuple(Job(task.preset, seed) for seed in range(1, len(means) + 1))
    facts = [{"mean": mean, "std": 2.0} for mean in means if mean is not None]
    known = iter(Done(name="", run="", attempts=1, trained_s=1.0, evaluation=it) for it in facts)
    done = tuple(None if mean is None else next(known) for mean in means)
    return Measured(task, Published(500.0, 0.0, 300), jobs, done)


@pytest.mark.parametrize(
    ("mean", "std", "seeds", "bound"),
    [
        (500.0, 0.0, (500.0, 500.0), 495.0),
        (-100.0, 15.0, (-100.0, -100.0), -103.0),
        (-100.0, 0.5, (), -101.0),
        (-100.0, 0.0, (-98.0, -102.0), -104.0),
        (500.0, 0.0, (500.0, 200.0, 500.0), 475.0),
    ],
)
def test_the_bound_is_two_standard_errors_below(mean: float, std: float, seeds: Sequence[float], bound: float) -> None:
    """One percent at least, and five at most however far the seeds are apart; below the mean whatever its sign."""
    assert Published(mean, std, 100).bound(seeds) == pytest.approx(bound)


def test_the_mean_over_all_seeds_decides() -> None:
    """One bad seed counts in full; the middle seed does not save it."""
    assert measured(500.0, 500.0, 400.0).met is False
    assert measured(500.0, 500.0, 485.0).met is True
    assert "**MISSED**" in measured(500.0, 500.0, 400.0).said


def test_what_is_not_whole_or_not_the_same_is_not_judged() -> None:
    """Seeds that are missing, another version of the task, and nothing at all, each with its reason."""
    partial, other, nothing = measured(500.0, None), measured(500.0, task=LANDER), measured(None, None)
    assert (partial.met, other.met, nothing.met) == (None, None, None)
    assert partial.said == "not judged: 1 of 2 seeds are done"
    assert other.said == "not judged: the zoo trained LunarLander-v2, another version; it reaches the bound"
    assert measured(400.0, task=STOCK).said.endswith("beside the default engine; it does not reach the bound")
    assert nothing.said == "not measured: run `make zoo`"
    assert (row_of(nothing).ours, row_of(other).met) == (None, None)


def test_a_seed_below_the_bound_is_told_with_what_it_had_reached() -> None:
    """Whoever forgot what it knew is no slow learner; seeds above the bound are not spoken of."""
    two = replace(measured(200.0, 500.0), courses=(Course(422.0, 72_000, ("it fell",)), Course(500.0, 90_000)))
    text = page([two], Sheet("", "", ()))
    assert "- CartPole-v1, seed 1: 200.0 ± 2.0 at the end" in text
    assert "most 422.0, after 72,000 of 100,000 steps. The health rules warned:\n  - it fell\n" in text
    assert "seed 2: 500.0" not in text
    assert "Seeds below" not in page([measured(500.0, 500.0)], Sheet("", "", ()))


def test_a_repeat_is_named_and_takes_nothing_back(tmp_path: Path) -> None:
    """Five other seeds of CartPole, each with its own number; what they come to judges nothing."""
    again = measured(500.0, 500.0, task=REPEAT)
    again = replace(again, jobs=tuple(Job("cartpole", seed) for seed in (6, 7)))
    missed = measured(200.0, 500.0)
    text = page([missed, again], Sheet("", "", ()))
    assert (again.met, missed.met) == (None, False)
    assert "0 of 1 judged lines are met; missed: CartPole-v1. Not judged: CartPole-v1, seeds from 6." in text
    assert "| CartPole-v1, seeds from 6 | seed 6: 500.0 ± 2.0 | seed 7: 500.0 ± 2.0 |" in text
    assert "--seeds 2 --seed 6" in text


def test_many_seeds_say_how_often_it_happens(tmp_path: Path) -> None:
    """Counted by engine, the newest training of a seed, of the same preset and length alone; too few say nothing."""
    for number, (engine, seed, steps, mean) in enumerate(
        [("fast", 1, 100_000, 100.0), ("fast", 1, 100_000, 500.0), ("fast", 2, 100_000, 200.0), ("sb3", 1, 9, 1.0)]
    ):
        spec = {"preset": "cartpole", "run": {"seed": seed, "total_timesteps": steps}}
        file = tmp_path / f"cartpole-{engine}-s{seed}-{number}.json"
        file.write_text(json.dumps({"engine": engine, "spec": spec, "returns": [mean, mean]}))
        os.utime(file, (number, number))
    job = Job("cartpole", 1)
    (found,) = many_seeds(tmp_path, job, 1)
    assert (found.engine, found.means) == ("fast", {1: 500.0, 2: 200.0})
    assert found.said(495.0) == "by the default engine 1 of 2 seeds (seed 2: 200.0)"
    assert many_seeds(tmp_path, job, 2) == []
    text = page([replace(measured(500.0), elsewhere=(found.said(495.0),))], Sheet("", "", ()))
    assert "without a supervisor (`python -m benchmarks.learning`): by the default engine 1 of 2" in text


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    """In a sentence that names it; nothing starts."""
    file = tmp_path / "other.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(UsageError, match=r"other\.csv: not the zoo's table"):
        read_published(file)
    assert main(["--published", str(tmp_path / "none.csv"), "--folder", str(tmp_path / "zoo")]) == 2
    assert not (tmp_path / "zoo").exists()


@pytest.mark.slow
def test_the_page_is_written_from_what_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every task has its line beside the zoo's; what nobody trained is called not measured."""
    (tmp_path / "published.csv").write_text(ROWS)
    folder, page = tmp_path / "zoo", tmp_path / "zoo.md"
    folder.mkdir()
    for seed in (1, 2):
        name = Job("cartpole", seed, ("run.threads=1", "run.device=cpu")).name
        facts = {"mean": 490.0 + 5 * seed, "std": 0.5}
        done = {"name": name, "run": "x", "attempts": seed, "trained_s": 30.0, "evaluation": facts}
        (folder / f"{name}.json").write_text(json.dumps(done))
    best = {"name": name, "evaluation": {"mean": 499.0, "std": 0.0, "checkpoint": "000040000"}}
    (folder / f"{name}.best.json").write_text(json.dumps(best))
    words = ["--report", "--folder", str(folder), "--published", str(tmp_path / "published.csv"), "--seeds", "2"]
    assert main([*words, "--page", str(page), "--json", str(tmp_path / "sheet.json")]) == 0
    text = page.read_text(encoding="utf-8")
    lines = {line.split(" | ")[0].removeprefix("| "): line for line in text.splitlines() if line.startswith("| ")}
    here = f"CartPole-v1 on {facts_of_the_machine()['processor']}"
    assert set(lines) >= {task.name for task in TASKS[1:]} | {here}
    assert (
        f"| {here} | 100,000 | 500.0 ± 0.0 (300 episodes) | 495.0 | 497.5 ± 3.5 |  | met | 499.0 (1 of 2 seeds) |"
        in text
    )
    assert "| - its best kept checkpoint, not judged | only the last kept | 499.0 ± 0.0 at 40,000 |" in text
    assert f"| {here} | 495.0 ± 0.5 | 500.0 ± 0.5 |" in text
    assert text.count("not measured") == len(TASKS) - 1
    assert "Runs: 2 on " in text
    assert str(tmp_path) not in text
    assert f"{here}: met" in capsys.readouterr().out
    assert sum(row["met"] is True for row in json.loads((tmp_path / "sheet.json").read_text())["rows"]) == 1


def test_what_another_processor_came_to_keeps_its_line(tmp_path: Path) -> None:
    """A whole result of one's own takes the place of the kept one of the same processor, and of no other."""
    file = tmp_path / "zoo.json"
    there = replace(measured(200.0, 500.0), processor="A", elsewhere=("by one engine 1 of 9 seeds",))
    here = replace(measured(500.0, 500.0), processor="B")
    assert with_kept([there], file) == [there]
    keep([there], file)
    nothing = replace(measured(None, None), processor="B")
    (kept,) = with_kept([nothing], file)
    assert (kept.name, kept.means, kept.met, kept.elsewhere) == (there.name, there.means, False, there.elsewhere)
    assert [it.name for it in with_kept([here], file)] == ["CartPole-v1 on B", "CartPole-v1 on A"]
    better = replace(measured(498.0, 500.0), processor="A")
    assert with_kept([better], file) == [better]
    (kept,) = with_kept([replace(measured(498.0, None), processor="A")], file)
    assert kept.means == there.means


def test_seeds_that_another_checkout_trained_are_not_trained_again(tmp_path: Path) -> None:
    """By their names, and on this processor alone: SAC's and TD3's take an hour each."""
    file = tmp_path / "zoo.json"
    half = replace(measured(-150.0, None), processor="A", courses=(None, None), best=(None, None))
    keep([half], file)
    (name, _) = [job.name for job in half.jobs]
    assert kept_seeds(file, "A") == {name: (half.done[0], None, None)}
    assert kept_seeds(file, "B") == {}
    assert kept_seeds(tmp_path / "none.json", "A") == {}


def test_what_was_trained_with_other_settings_is_not_kept(tmp_path: Path) -> None:
    """Other seeds, settings or versions are other jobs: what they came to says nothing of these."""
    keep([replace(measured(500.0, 500.0), processor="A")], tmp_path / "zoo.json")
    other = measured(None, None)
    other = replace(other, jobs=tuple(Job("cartpole", seed) for seed in (8, 9)))
    assert with_kept([other], tmp_path / "zoo.json") == [other]


def test_what_the_docs_keep_is_of_todays_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new field of the spec, or another value in a preset, must not empty the page at the next `make zoo`."""
    versions = {"torch": "2.13.0+cpu", "stable-baselines3": "2.9.2", "gymnasium": "1.4.0", "numpy": "2.4.6"}
    monkeypatch.setattr("benchmarks.campaign.facts_of_the_machine", lambda: versions)
    kept = json.loads((DOCS / "zoo.json").read_text())["tasks"]
    digests = {name for it in kept for name in it["names"]}
    campaign_digest.cache_clear()
    try:
        today = {job.name for task in TASKS for job in zoo_jobs(task, len(kept[0]["names"]), None)}
    finally:
        campaign_digest.cache_clear()
    assert digests <= today
