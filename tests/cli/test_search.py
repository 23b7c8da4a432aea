"""`search`: what it refuses before anything starts, and what it says of a search that was begun."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

from mission_tui.cli.plan import search_plan, typed_search
from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.search import driver_launch
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import EnvSpec, RunSpec, Spec
from mission_tui.search.plan import plan_of
from tests.cli.test_json_documents import check
from tests.missing import search_path_without
from tests.shell import Shell
from tests.waiting import until

needs_optuna = pytest.mark.skipif(find_spec("optuna") is None, reason="the search extra is not installed")
RATE = ("--param", "ppo.learning_rate=log:1e-5..1e-2")
MISTAKES = [
    (("search", "tiny"), 2, "say what to search: --param"),
    (("search", "tny", *RATE), 2, "did you mean 'tiny'?"),
    (("search", *RATE), 2, "name a preset to search for"),
    (("search", "tiny", "--param", "ppo.learning_rat=log:1e-5..1e-2"), 78, "did you mean 'learning_rate'?"),
    (("search", "tiny", "--param", "ppo.n_epochs=0..4"), 78, "the nearest valid value is 1"),
    (("search", "tiny", *RATE, "--metric", "eval/succes"), 2, "did you mean 'eval/success_rate'?"),
    (("search", "tiny", *RATE, "--metric", "eval/success"), 2, "--metric eval/success_rate needs evaluations"),
    (("search", "pendulum-sac", "--space", "zoo"), 2, "--param sac.learning_rate=log:"),
    (("search", "pendulum-sac", "--param", "ppo.n_epochs=4..20"), 2, "[sac]: policy, learning_rate"),
    (("search", "--prune", "tiny", *RATE), 2, "stands behind the preset: search tiny --prune"),
    (("search", "tiny", *RATE, "--metric", "eval/mean_reward"), 2, "--set evaluate.every="),
    (("search", "tiny", *RATE, "--metric", "rollout/ep_rew_men"), 2, "did you mean 'rollout/ep_rew_mean'?"),
    (("search", "tiny", *RATE, "--prune", "medain"), 2, "did you mean 'median'?"),
    (("search", "tiny", *RATE, "--name", "../x"), 2, "name of a search '../x'"),
    (("search", "--show", "x", "--continue", "x"), 2, "give one of the two"),
    (("search", "tiny", "--continue", "x"), 2, "leave out the preset"),
    (("search", "--continue", "x", "--seeds", "2"), 2, "leave out --seeds"),
    (("search", "--continue", "x", "--timesteps", "2M"), 2, "leave out --timesteps"),
    (("search", "tiny", *RATE, "--timesteps", "many"), 78, "run.total_timesteps = 'many'"),
    (
        ("search", "--param", "rate=1..2", "--", "python", "train.py", "{lr}"),
        2,
        "--param rate=1..2: the command has no",
    ),
]


@needs_optuna
@pytest.mark.parametrize(
    ("words", "code", "said"), MISTAKES, ids=lambda value: "-".join(value[1:3]) if isinstance(value, tuple) else None
)
def test_a_mistake_is_one_line_and_starts_nothing(shell: Shell, words: tuple[str, ...], code: int, said: str) -> None:
    """The line names the key and the nearest valid value."""
    done = shell.typed(*words)
    assert done.returncode == code, done.stderr
    (line,) = done.stderr.splitlines()
    assert said in line
    assert not shell.root.exists()


@pytest.mark.slow
def test_without_optuna_the_line_says_how_to_install_it(shell: Shell) -> None:
    """Nothing starts."""
    shell.environ["PYTHONPATH"] = search_path_without(("optuna",), shell.cwd / "without")
    done = shell("search", "tiny", *RATE)
    assert done.returncode == 2
    assert "search needs Optuna" in done.stderr
    assert "pip install -c constraints.txt -e '.[search]'" in done.stderr
    assert not shell.root.exists()


BASE = Spec(preset="tiny", env=EnvSpec(id="CartPole-v1"), run=RunSpec(total_timesteps=1000))


def typed(*lines: str) -> Spec | None:
    """The driver that lines of the launch form stand for."""
    return typed_search(lines, lambda words: change(BASE, words) if words else BASE)


@needs_optuna
def test_a_range_in_the_launch_form_makes_a_search_of_it() -> None:
    """Then lines with several values are choices, `search.trials=7` is a setting of the search, and the rest is what
    every trial has; without a range or such a line they are a sweep as ever.
    """
    assert typed("ppo.n_epochs=4,8", "run.seed=1,2") is None
    found = typed("ppo.n_epochs=4..20", "ppo.clip_range=0.1,0.2", "ppo.gamma=0.9", "search.trials=7", "run.seed=3,4")
    assert found is not None
    plan, group = plan_of(found, "spec.toml")
    assert (plan.params, plan.trials, plan.seeds) == (("ppo.n_epochs=4..20", "ppo.clip_range=0.1,0.2"), 7, 2)
    assert (plan.base.ppo.gamma, plan.trial_seeds) == (0.9, (3, 4))
    item = driver_launch(found)
    assert (item.name, item.group) == (f"{group}-search", group)
    assert (driver_launch(found, "hunt").group, plan_of(driver_launch(found, "hunt").spec, "")[1]) == ("hunt", "hunt")
    zoo = typed("search.space=zoo", "search.prune=median")
    assert zoo is not None
    assert len(plan_of(zoo, "spec.toml")[0].parameters) == 11
    for line, said in (
        ("search.trails=7", "did you mean 'trials'"),
        ("search.trials=many", "search.trials = many"),
        ("search.prune=medain", "search.prune = medain"),
        ("ppo.n_epochs=0..4", "the nearest valid value is 1"),
    ):
        with pytest.raises(MissionError, match=re.escape(said)):
            typed("ppo.clip_range=0.1,0.2", line)
    with pytest.raises(UsageError, match="count up from the first"):
        typed("ppo.n_epochs=4..20", "run.seed=1,7")


def test_a_command_is_held_against_its_own_values_where_it_has_some() -> None:
    """Without a value for the placeholder there is no run that a winner could be compared with."""
    bare = Spec(preset="command", run=RunSpec(command=("python", "train.py", "{lr}")))
    own = change(bare, ["run.values.lr=3e-4"])
    for base, confirm in ((bare, 0), (own, 5)):
        plan = search_plan(
            base, ("run.values.lr=log:1e-5..1e-2",), "", "loss", (8, 2, 1, 5), minimize=True, prune="none"
        )
        assert plan.confirm == confirm


@needs_optuna
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_truly_helps_is_found_what_falls_behind_is_stopped_and_the_winner_is_judged_anew(quick: Shell) -> None:
    """Of a trainer whose return is its learning rate: all trials are runs of one group, a pruned one has a checkpoint,
    the best has the highest rate, and fresh seeds say that it is better; more trials may follow.
    """
    quick.environ.update(STUB_UPDATE_S="0.05", STUB_RETURNS="1")
    words = (
        "--metric",
        "rollout/rate",
        "--set",
        "run.total_timesteps=15360",
        "-j",
        "3",
        "--prune",
        "--confirm",
        "3",
        "--name",
        "hunt",
    )
    begun = quick.json("search", "tiny", *RATE, "--trials", "10", *words, "--wait", timeout_s=240)
    check("search", begun)
    assert (begun["group"], begun["driver"]["name"], begun["driver"]["state"]) == ("hunt", "hunt-search", "ended")
    search = begun["search"]
    trials = search["trials"]
    views = {view["id"]: view for view in quick.views()}
    assert {view["group"] for view in views.values()} == {"hunt"}
    assert [views[trial["runs"][0]]["name"] for trial in trials] == [f"hunt-{number}" for number in range(10)]
    rates = {trial["number"]: float(trial["settings"]["ppo.learning_rate"]) for trial in trials}
    finished = [trial["number"] for trial in trials if trial["state"] == "finished"]
    assert search["best"] == max(finished, key=rates.__getitem__)
    pruned = [trial for trial in trials if trial["state"] == "pruned"]
    assert len(finished) + len(pruned) == 10, trials
    assert pruned, trials
    for trial in pruned:
        (run,) = trial["runs"]
        assert views[run]["outcome"] == "stopped", views[run]
        assert list((quick.root / run / "checkpoints").glob("0*"))
    assert search["confirmation"]["says"] == "better", search["confirmation"]
    assert len(views) == 1 + 10 + 6
    assert (
        "to keep it: mission-tui presets save tiny tiny-best --set ppo."
        in quick.typed("search", "--show", "hunt").stdout
    )
    again = quick.typed("search", "tiny", *RATE, "--name", "hunt")
    assert (again.returncode, "choose another --name" in again.stderr) == (2, True)
    more = quick.json("search", "--continue", "hunt", "--trials", "11", "--wait", timeout_s=120)["search"]
    assert (len(more["trials"]), more["trials"][:10]) == (11, trials)


@needs_optuna
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_search_of_which_every_trial_fails_gives_up_and_says_why(quick: Shell) -> None:
    """After five in a row: the sixth would fail too. Of five at a time, others have begun by then: up to nine fail."""
    quick.environ["STUB_CRASHES_AFTER"] = "1"
    words = ("search", "tiny", *RATE, "--trials", "20", "-j", "5", "--confirm", "0", "--name", "hunt", "--wait")
    done = quick(*words, timeout_s=150)
    assert done.returncode == 1, done.stderr
    said = re.search(r"it gave up: (\d) trials failed one after the other; the last one: hunt-\d failed", done.stdout)
    assert said is not None, done.stdout
    assert 5 <= int(said[1]) <= 9
    assert "SIGSEGV" in done.stdout


@needs_optuna
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_search_that_is_stopped_leaves_its_trials_and_takes_them_up_again(quick: Shell) -> None:
    """`stop` of the whole group ends driver and trials; `--continue` resumes these, and none is counted as failed."""
    words = ("--set", "run.total_timesteps=25600", "--trials", "2", "-j", "2", "--confirm", "0", "--name", "hunt")
    assert quick.typed("search", "tiny", *RATE, *words).returncode == 0
    until(lambda: len([view for view in quick.views() if view["update"]]) >= 2, 60, "two trials advance")
    assert quick.typed("stop", "hunt").returncode == 0  # an interpreter of its own might come after their end
    until(lambda: all(view["state"] == "ended" for view in quick.views()), 60, "all have ended")
    before = quick.json("search", "--show", "hunt", code=75)["search"]
    assert [trial["state"] for trial in before["trials"]] == ["running", "running"]
    done = quick.json("search", "--continue", "hunt", "--wait", timeout_s=120)["search"]
    assert [trial["state"] for trial in done["trials"]] == ["finished", "finished"]
    assert [trial["runs"] for trial in done["trials"]] == [trial["runs"] for trial in before["trials"]]
