"""A sweep as a person runs it, from its launch to a figure."""

from __future__ import annotations

import pytest

from tests.shell import Shell
from tests.waiting import until


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_sweep_of_rates_and_seeds_is_a_figure_in_four_commands(shell: Shell) -> None:
    """Two learning rates by three seeds, two at a time, whole seeds first; the wait, the table, the PDF."""
    pytest.importorskip("matplotlib", reason="the report extra is not installed")
    sweep = ("--set", "ppo.learning_rate=1e-3,3e-3", "--seeds", "3", "-j", "2", "--group", "rates")
    runs = shell.preloaded().launch("cartpole", *sweep, "--timesteps", "6k")
    assert len(runs) == 6
    assert shell("wait", "rates", timeout_s=240).returncode == 0
    assert [shell.view(run)["seed"] for run in runs] == [1, 1, 2, 2, 3, 3]
    table = shell("metrics", "rates", "--csv", timeout_s=60).stdout.splitlines()
    assert table[0].startswith("run,name,seed,ppo.learning_rate,")
    assert shell("compare", "rates", "--figure", "rates.pdf", timeout_s=120).returncode == 0
    assert (shell.cwd / "rates.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.slow
def test_a_stopped_sweep_is_resumed_with_those_that_had_not_begun(quick: Shell) -> None:
    """Two of them were still queued: the answer says that they wait again, and they begin in their turn."""
    runs = quick.launch("tiny", "--seeds", "3", "-j", "1", "--group", "rates")
    quick.advancing(runs[0])
    assert quick.typed("stop", "rates").returncode == 0
    until(lambda: [quick.view(run)["outcome"] for run in runs] == ["stopped"] * 3, 20)
    done = quick.typed("resume", "rates")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == runs
    assert done.stderr.count(" never began, and waits in the queue again: it waits for its group") == 2
    assert quick.typed("stop", runs[0]).returncode == 0
    quick.advancing(runs[1])
    assert [quick.view(run)["state"] for run in runs] == ["ended", "running", "queued"]
    assert quick.view(runs[1])["attempt"] == 1
