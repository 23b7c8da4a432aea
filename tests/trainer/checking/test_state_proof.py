"""What counts as an environment that can be restored exactly: one that was, into another instance, through files."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th

from mission_tui.fleet.specs.spec import EnvSpec
from mission_tui.trainer.state.checkpoint import load_checkpoint
from mission_tui.trainer.state.env_proof import prove, unproven
from tests.trainer.harness import Ran, equal, new_run, run_attempt, spec_with, stop_in
from tests.trainer.stateful_envs import LIARS, Batch, ForgetfulBatch, Honest

IMPORTS = ("tests.trainer.stateful_envs",)
REASONS = {
    "NoRandom": "its get_state does not restore its observations: first difference at step 1",
    "Live": "its get_state does not restore its observations: first difference at step 1",
    "Deaf": "its get_state leaves out 'age', which changes within an episode",
    "Ageless": "its get_state leaves out 'age', which changes within an episode",
    "FarLimit": "its get_state leaves out 'age', which changes within an episode",
    "FromNumPy": "its get_state does not restore its observations",
    "FromModule": "its get_state does not restore its observations",
    "Objects": "what its get_state returns cannot be kept in a checkpoint: ",
    "Raises": "its set_state raised KeyError",
    "Token": "its get_state does not restore its observations: first difference at step 1, in another process",
    "Curriculum": "its get_state leaves out 'steps_of_all', and what it does depends on that",
    "RareDraw": "its get_state leaves out 'rare', a random generator",
    "Bag": "its get_state leaves out 'bag.things', which changes within an episode",
    "Draws": "its get_state changes what it saves: a second one is different",
}


def verdict(name: str, *wrappers: Any, **env: Any) -> str:
    """What is said of the environment of that name."""
    spec = EnvSpec(id=f"State{name}-v0", imports=IMPORTS, wrappers=wrappers, **env)
    return unproven(spec, None, batched=env.get("vec") == "native")


def test_an_honest_environment_is_proven() -> None:
    """A count that no episode begins with anew may be left out; with Gymnasium's own wrappers too."""
    assert verdict("Honest") == ""
    assert verdict("Noting") == ""
    assert prove(lambda: Batch(2), batched=True) == ""


@pytest.mark.parametrize("name", [cls.__name__ for cls in LIARS])
def test_one_that_is_wrong_about_itself_is_found_out(name: str) -> None:
    """With what was left out, or when the first difference showed."""
    assert verdict(name).startswith(REASONS[name])


def test_a_batch_is_tried_as_a_batch() -> None:
    """Its lanes share one generator, which begins anew here."""
    assert "first difference at step 1" in prove(lambda: ForgetfulBatch(2), batched=True)
    assert "does not restore" in verdict("ForgetfulBatch", vec="native")


def test_a_wrapper_of_a_known_name_from_elsewhere_saves_nothing() -> None:
    """Nobody knows what it carries: such an environment has no state that could be called saved."""
    from mission_tui.envs import can_save_state
    from tests.trainer.stateful_envs import TimeLimit

    assert can_save_state(Honest())
    assert not can_save_state(TimeLimit(Honest()))


def test_the_proof_leaves_no_trace_and_takes_a_moment() -> None:
    """The global generators stand where they stood, whatever was drawn; it takes this process a second at most."""
    random.seed(1)
    np.random.seed(2)
    th.manual_seed(3)
    wanted = (random.random(), np.random.random(), th.rand(1).item())
    random.seed(1)
    np.random.seed(2)
    th.manual_seed(3)
    begun = time.process_time()
    assert verdict("FromNumPy") != ""
    assert verdict("Honest") == ""
    assert time.process_time() - begun < 5.0
    assert (random.random(), np.random.random(), th.rand(1).item()) == wanted


def resumed(tmp_path: Path, name: str, vec: str) -> tuple[Ran, Ran]:
    """A run that was stopped after three updates and resumed, and one like it that was not."""
    env = {"id": f"State{name}-v0", "imports": list(IMPORTS), "vec": vec, "n_envs": 2}
    spec = spec_with(env=env, run={"total_timesteps": 6 * 64})
    whole = run_attempt(new_run(tmp_path / "whole", spec))
    run_dir = new_run(tmp_path / "run", spec)
    first = run_attempt(run_dir, hook=stop_in("rollout", 3))
    checkpoint = first.saves()[-1].name
    return whole, run_attempt(run_dir, 2, checkpoint)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("vec", ["inline", "workers"])
def test_exact_is_said_where_every_tensor_is_equal(vec: str, tmp_path: Path) -> None:
    """Parameters and moments after a resume are those of the run that never stopped, bit for bit."""
    whole, again = resumed(tmp_path, "Honest", vec)
    assert again.started().exact
    ends = [load_checkpoint(ran.run_dir.checkpoints / "000000384").boundary for ran in (whole, again)]
    assert equal(ends[0].parameters, ends[1].parameters)
    assert equal(ends[0].moments, ends[1].moments)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("vec", ["inline", "workers"])
def test_a_liar_is_continued_and_the_reason_said(vec: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Its checkpoint holds a state, which is not believed; its log says what was found."""
    _, again = resumed(tmp_path, "NoRandom", vec)
    assert not again.started().exact
    assert again.exit_code == 0
    assert "first difference at step 1; episodes begin anew" in capfd.readouterr().err


def test_preflight_says_what_was_found() -> None:
    """In its answer, for the launch and the verdict of a resume; of an honest one it says nothing."""
    for name, said in (
        ("Honest", None),
        ("Ageless", "its get_state leaves out 'age', which changes within an episode"),
    ):
        spec = {"preset": "p", "env": {"id": f"State{name}-v0", "imports": list(IMPORTS)}}
        argv = [sys.executable, "-m", "mission_tui.trainer.checking.preflight"]
        done = subprocess.run(argv, input=json.dumps(spec), capture_output=True, text=True, check=True)
        answer = json.loads(done.stdout.splitlines()[-1])
        assert (answer["ok"], answer.get("state")) == (True, said)
