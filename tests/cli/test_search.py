"""`search`: what it refuses before anything starts, and what it says of a search that was begun."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

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
    (("search", "tiny", *RATE, "--metric", "eval/success"), 2, "did you mean 'eval/success_rate'?"),
    (("search", "tiny", *RATE, "--metric", "eval/mean_reward"), 2, "--set evaluate.every="),
    (("search", "tiny", *RATE, "--metric", "rollout/ep_rew_men"), 2, "did you mean 'rollout/ep_rew_mean'?"),
    (("search", "tiny", *RATE, "--prune", "medain"), 2, "medain"),
    (("search", "tiny", *RATE, "--name", "../x"), 2, "name of a search '../x'"),
    (("search", "--show", "x", "--continue", "x"), 2, "give one of the two"),
    (("search", "tiny", "--continue", "x"), 2, "leave out the preset"),
    (("search", "--continue", "x", "--seeds", "2"), 2, "leave out --seeds"),
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


@needs_optuna
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_trials_are_runs_pruned_ones_stop_with_a_checkpoint_and_what_fails_says_why(quick: Shell) -> None:
    """Of a scripted trainer: all in one group that the driver belongs to, at most -j of them at a time; the search can
    be stopped, asked how far it is, and goes on with more trials.
    """
    quick.environ["STUB_UPDATE_S"] = "0.02"
    words = ("--set", "run.total_timesteps=20480", "--trials", "4", "-j", "2", "--confirm", "0", "--name", "hunt")
    begun = quick.json("search", "tiny", *RATE, *words, "--wait", timeout_s=120)
    assert (begun["group"], begun["driver"]["name"], begun["driver"]["state"]) == ("hunt", "hunt-search", "ended")
    search = begun["search"]
    assert search["ended"], search
    assert len(search["trials"]) == 4
    views = {view["id"]: view for view in quick.views()}
    assert {view["group"] for view in views.values()} == {"hunt"}
    runs = [run for trial in search["trials"] for run in trial["runs"]]
    assert [views[run]["name"] for run in runs] == ["hunt-0", "hunt-1", "hunt-2", "hunt-3"]
    assert {trial["state"] for trial in search["trials"]} == {"finished"}, search
    shown = quick("search", "--show", "hunt")
    assert "4 of 4 trials are over, best" in shown.stdout
    again = quick("search", "tiny", *RATE, "--name", "hunt")
    assert again.returncode == 2
    assert "choose another --name" in again.stderr
    more = quick.json("search", "--continue", "hunt", "--trials", "5", "--wait", timeout_s=120)
    assert [trial["number"] for trial in more["search"]["trials"]] == [0, 1, 2, 3, 4]
    assert more["search"]["trials"][:4] == search["trials"]


def study_lines(shell: Shell) -> list[dict[str, object]]:
    """What Optuna's file holds so far."""
    return [
        json.loads(line)
        for path in Path(shell.root).glob("*-hunt-search-*/study.log")
        for line in path.read_bytes().split(b"\n")[:-1]
    ]


@needs_optuna
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_search_that_is_stopped_leaves_its_trials_and_takes_them_up_again(quick: Shell) -> None:
    """`stop` of the whole group ends driver and trials; `--continue` resumes these, and none is counted as failed."""
    words = ("--set", "run.total_timesteps=102400", "--trials", "2", "-j", "2", "--confirm", "0", "--name", "hunt")
    assert quick("search", "tiny", *RATE, *words).returncode == 0
    until(lambda: len([view for view in quick.views() if view["update"]]) >= 2, 60, "two trials advance")
    assert quick("stop", "hunt").returncode == 0
    until(lambda: all(view["state"] == "ended" for view in quick.views()), 60, "all have ended")
    before = quick.json("search", "--show", "hunt", code=75)["search"]
    assert [trial["state"] for trial in before["trials"]] == ["running", "running"]
    quick.environ["STUB_UPDATE_S"] = "0.01"
    done = quick.json("search", "--continue", "hunt", "--wait", timeout_s=120)["search"]
    assert [trial["state"] for trial in done["trials"]] == ["finished", "finished"]
    assert [trial["runs"] for trial in done["trials"]] == [trial["runs"] for trial in before["trials"]]
