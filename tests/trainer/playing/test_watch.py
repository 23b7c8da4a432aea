"""A policy that plays to be watched: the episodes of an evaluation, a frame for each order and none beside them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch as th
from msgspec import structs
from stable_baselines3.common.distributions import (
    BernoulliDistribution,
    CategoricalDistribution,
    DiagGaussianDistribution,
    MultiCategoricalDistribution,
)

from mission_tui.envs import mission_files
from mission_tui.errors import CheckpointError
from mission_tui.fleet.events.metrics import number
from mission_tui.fleet.views.played_frame import Canvas, PlayedFrame, PlayOrder, is_sound
from mission_tui.records.runs.code_files import write_rules
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.playing.watch import FIRST_SEED, Player, heads_of
from tests.trainer.contrib_cases import RECURRENT, needs_contrib
from tests.trainer.harness import PROBES, new_run, run_attempt
from tests.trainer.playing.test_evaluate import BRIEF, evaluated, trained
from tests.trainer.sb3_algorithms.cases import other_spec

ROOM = Canvas(columns=40, lines=18)
STEP = PlayOrder(canvas=ROOM)


def episode(player: Player, first: PlayOrder) -> list[PlayedFrame]:
    """Its frames from `first` to the one that is over."""
    frames = [player.play(first)]
    while not frames[-1].over:
        frames.append(player.play(STEP))
    return frames


@pytest.fixture(scope="module")
def cart(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunDir, str]:
    """A finished run of CartPole."""
    return trained(tmp_path_factory.mktemp("cart") / "run", run=BRIEF)


@pytest.mark.slow
def test_it_plays_the_episode_that_an_evaluation_plays(
    cart: tuple[RunDir, str], capfd: pytest.CaptureFixture[str]
) -> None:
    """Same seed, same return and length; the last frame shows how it ended, not how the next one begins."""
    run_dir, name = cart
    player = Player(run_dir, name)
    frames = episode(player, PlayOrder(canvas=ROOM, seed=7))
    player.close()
    played = evaluated(run_dir, name, capfd, "--episodes", "1", "--seed", "7")
    assert (frames[-1].episode_return, frames[-1].step) == (played["mean"], played["lengths"]["mean"])
    assert [frame.step for frame in frames] == list(range(len(frames)))
    assert [frame.over for frame in frames] == [False] * (len(frames) - 1) + [True]
    angle = float(frames[-1].picture.rpartition("pole ")[2].split(" ")[0])
    assert abs(angle) > 10  # fallen: a reset cart stands
    assert all(abs(sum(frame.heads[0].probabilities) - 1) < 1e-3 for frame in frames)
    assert all(isinstance(frame.value, float) for frame in frames)


@pytest.mark.slow
def test_a_reel_is_played_again_by_its_seeds(cart: tuple[RunDir, str], capfd: pytest.CaptureFixture[str]) -> None:
    """Best, median and worst of single episodes, each with the seed that plays exactly it to who watches."""
    run_dir, name = cart
    judged = evaluated(run_dir, name, capfd, "--episodes", "7", "--seed", "5", "--reel")
    reel = judged["reel"]
    assert reel["best"]["return"] >= judged["median"] >= reel["worst"]["return"]
    assert reel["median"]["return"] == judged["median"]
    assert {it["seed"] for it in reel.values()} <= set(range(5, 12))
    player = Player(run_dir, name)
    for it in reel.values():
        over = episode(player, PlayOrder(canvas=ROOM, seed=it["seed"]))[-1]
        assert (over.episode_return, over.step, over.outcome) == (it["return"], it["steps"], it["outcome"])
    player.close()


@pytest.mark.slow
def test_orders_go_as_far_as_they_say(cart: tuple[RunDir, str]) -> None:
    """No step draws the same moment in another size; many steps end with the episode; the next one has its own seed."""
    run_dir, name = cart
    player = Player(run_dir, name)
    begun = player.play(PlayOrder(canvas=ROOM, steps=0))
    assert (begun.step, begun.seed, begun.checkpoint) == (0, FIRST_SEED, name)
    five = player.play(PlayOrder(canvas=ROOM, steps=5))
    larger = player.play(PlayOrder(canvas=Canvas(columns=60, lines=30), steps=0))
    assert (five.step, larger.step, larger.heads) == (5, 5, five.heads)
    assert larger.picture.count("\n") > five.picture.count("\n")
    over = player.play(PlayOrder(canvas=ROOM, steps=1000))
    assert (over.over, player.play(PlayOrder(canvas=ROOM, steps=0))) == (True, over)
    following = player.play(STEP)
    assert (following.step, following.seed, following.over) == (0, FIRST_SEED + 1, False)
    assert player.play(PlayOrder(canvas=ROOM, restart=True)).seed == FIRST_SEED + 2
    again = [frame.picture for frame in episode(player, PlayOrder(canvas=ROOM, seed=5))]
    assert again == [frame.picture for frame in episode(player, PlayOrder(canvas=ROOM, seed=5))]
    player.close()


@pytest.mark.slow
def test_a_mission_has_a_head_for_each_unit_and_an_outcome(tmp_path: Path) -> None:
    """Under the rules of the run's snapshot, drawn as text."""
    mission = {"id": "MissionGym-v0", "config": "demo", "vec": "native"}
    run_dir, name = trained(tmp_path / "run", env=mission, run=BRIEF)
    write_rules(run_dir.snapshot, {file.name: file.read_bytes() for file in mission_files("demo")})
    player = Player(run_dir, name)
    first = player.play(PlayOrder(canvas=ROOM, steps=0))
    assert [len(head.probabilities) for head in first.heads] == [9, 9, 9]
    assert [head.names[:3] for head in first.heads] == [("hold", "N", "NE")] * 3
    assert ("capture" in first.picture, first.picture.startswith("┌")) == (True, True)
    over = first
    while not over.over:
        over = player.play(PlayOrder(canvas=ROOM, steps=100))
    assert over.outcome
    player.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "drawn", "first_action"),
    [("CartPole-v1", "state", "left"), ("FrozenLake-v1", "state", "left"), ("LunarLander-v3", "pixels", "none")],
)
def test_a_trained_policy_is_watched_in_usual_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: str, drawn: str, first_action: str
) -> None:
    """To the end of an episode, with a picture in each frame and its actions by name: from the state where pygame
    cannot be imported, and LunarLander from what it draws with it.
    """
    if drawn == "pixels":
        pytest.importorskip("Box2D", reason="needs the extra: pip install '.[envs]'")
    else:
        monkeypatch.setitem(sys.modules, "pygame", None)
    run_dir, name = trained(tmp_path / "run", env={"id": env}, run=BRIEF)
    player = Player(run_dir, name)
    frames = episode(player, PlayOrder(canvas=structs.replace(ROOM, colours="full"), seed=3))
    player.close()
    assert {frame.drawn for frame in frames} == {drawn}
    assert all(frame.picture.strip() and not frame.note for frame in frames)
    assert frames[0].heads[0].names[0] == first_action
    assert abs(sum(frames[0].heads[0].probabilities) - 1) < 1e-2
    assert len({frame.picture for frame in frames}) > 2


@pytest.mark.slow
def test_what_cannot_be_drawn_is_a_sentence_and_plays_on(tmp_path: Path) -> None:
    """The numbers go on without a picture."""
    run_dir, name = trained(tmp_path / "run", env={"id": "Walk-v0", **PROBES}, run=BRIEF)
    player = Player(run_dir, name)
    frames = [player.play(STEP) for _ in range(3)]
    assert {(frame.drawn, frame.picture) for frame in frames} == {("nothing", "")}
    assert "'Walk-v0' draws neither text (ansi) nor frames (rgb_array)" in frames[0].note
    assert [frame.step for frame in frames] == [0, 1, 2]
    player.close()


@pytest.mark.slow
def test_pixels_are_for_a_terminal_that_takes_them(tmp_path: Path) -> None:
    """In place of the text, also of the end of an episode, which a terminal that takes none any more has as text."""
    drawing = {"id": "Talkative-v0", "imports": ["tests.trainer.worker_envs"]}
    run_dir, name = trained(tmp_path / "run", env=drawing, run=BRIEF)
    player = Player(run_dir, name)
    cells = structs.replace(ROOM, cell=(10, 20))
    over = first = player.play(PlayOrder(canvas=cells, steps=0))
    while not over.over:
        over = player.play(PlayOrder(canvas=cells, steps=100))
    for frame in (first, over):
        assert (frame.drawn, frame.picture, frame.pixels is not None) == ("pixels", "", True)
        assert frame.pixels is not None
        assert is_sound(frame.pixels)
    again = player.play(PlayOrder(canvas=ROOM, steps=0))
    assert (again.over, again.pixels, len(again.picture) > 0) == (True, None, True)
    assert player.play(STEP).pixels is None
    player.close()


@pytest.mark.slow
def test_a_checkpoint_that_is_not_there_is_refused(cart: tuple[RunDir, str]) -> None:
    """As an evaluation refuses it."""
    with pytest.raises(CheckpointError):
        Player(cart[0], "000000001")


@pytest.mark.slow
@needs_contrib
def test_a_recurrent_policy_says_what_it_does_with_what_it_remembers(tmp_path: Path) -> None:
    """It takes the likeliest action by the memory of its episode, which begins anew with the next."""
    run_dir, name = trained(tmp_path / "run", run=BRIEF, **RECURRENT)
    player = Player(run_dir, name)
    for _ in range(2):
        frames = episode(player, PlayOrder(canvas=ROOM, seed=7))
        shares = [frame.heads[0].probabilities for frame in frames]
        assert [frame.heads[0].taken for frame in frames] == [float(np.argmax(each)) for each in shares]
        assert all(isinstance(frame.value, float) for frame in frames)
        assert len(set(shares)) > 1
    again = episode(player, PlayOrder(canvas=ROOM, seed=7))
    player.close()
    assert [frame.heads for frame in again] == [frame.heads for frame in frames]


@pytest.mark.slow
@pytest.mark.parametrize(
    "algo",
    ["td3", "ddpg", "dqn", pytest.param("qrdqn", marks=needs_contrib), "sac", pytest.param("ars", marks=needs_contrib)],
)
def test_a_policy_without_probabilities_shows_what_it_takes_and_how_it_values_that(algo: str, tmp_path: Path) -> None:
    """The value of every action where those decide; the action alone where nothing is drawn; no value of a state where
    there is no critic.
    """
    ran = run_attempt(new_run(tmp_path / "run", other_spec(algo)))
    player = Player(ran.run_dir, ran.ended().checkpoint or "")
    frame = player.play(PlayOrder(canvas=ROOM, steps=0))
    player.close()
    (head,) = frame.heads
    if algo in ("dqn", "qrdqn"):
        assert head.names == ("left", "right")
        assert head.values[int(number(head.taken) or 0)] == max(number(it) or 0.0 for it in head.values) == frame.value
    elif algo == "ars":
        assert head.names == ("left", "right")
        assert sorted(head.probabilities) == [0.0, head.probabilities[int(number(head.taken) or 0)]] == [0.0, 1.0]
    else:
        assert (head.values, head.probabilities, (head.mean is None)) == ((), (), algo != "sac")
        assert isinstance(head.taken, float)
    assert (frame.value is None) == (algo == "ars")


def test_heads_of_every_kind_of_action() -> None:
    """Choices by their probabilities, switches by two, Gaussians by mean and deviation."""
    one = CategoricalDistribution(3).proba_distribution(th.log(th.tensor([[0.2, 0.3, 0.5]])))
    assert [list(head.probabilities) for head in heads_of(one)] == [pytest.approx([0.2, 0.3, 0.5], abs=1e-3)]
    several = MultiCategoricalDistribution([2, 3]).proba_distribution(th.zeros(1, 5))
    assert [len(head.probabilities) for head in heads_of(several)] == [2, 3]
    switches = BernoulliDistribution(2).proba_distribution(th.zeros(1, 2))
    assert [head.probabilities for head in heads_of(switches)] == [(0.5, 0.5)] * 2
    gaussian = DiagGaussianDistribution(2).proba_distribution(th.tensor([[1.0, -1.0]]), th.log(th.tensor([0.5, 2.0])))
    assert [(head.mean, head.std) for head in heads_of(gaussian)] == [(1.0, 0.5), (-1.0, 2.0)]
    assert heads_of(object()) == ()


def answers(process: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


@pytest.mark.slow
def test_the_process_answers_what_it_was_asked_and_ends_with_its_asker(cart: tuple[RunDir, str]) -> None:
    """A slow consumer never makes it run ahead: three orders are three frames, and the end of stdin is its end."""
    run_dir, name = cart
    words = [sys.executable, "-m", "mission_tui.trainer.playing.watch", str(run_dir.path), "--checkpoint", name]
    with subprocess.Popen(
        [*words, "--parent", str(os.getpid())], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert isinstance(process.stdout, io.BufferedReader)
        frames = answers(process)
        for step in range(3):
            process.stdin.write(msgspec.json.encode(STEP) + b"\n")
            process.stdin.flush()
            assert next(frames)["frame"]["step"] == step
        process.stdin.close()
        assert list(frames) == []
        assert process.wait(20) == 0
