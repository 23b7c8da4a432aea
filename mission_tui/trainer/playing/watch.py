"""``python -m mission_tui.trainer.playing.watch RUN_DIR --checkpoint NAME --parent PID``: a policy plays to be watched.

It goes as far as it is asked to: an order (`PlayOrder`) a line on stdin, and for each a frame (`PlayedFrame`) on
stdout. Nothing runs ahead, so nothing queues. Episodes are those of an evaluation: by the run's snapshot, with its
statistics frozen, each with a seed of its own. It lives no longer than what asks it: stdin ends, or the kernel kills it
with its parent; it uses one thread, no GPU, and little more memory than it is given.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import gymnasium
import msgspec
import numpy as np
import torch as th
from msgspec import structs
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv

from mission_tui.envs.masks import MASKS
from mission_tui.envs.state_pictures import action_names, can_draw, picture_of_state
from mission_tui.envs.worker import die_with
from mission_tui.errors import PresetError, raised_by
from mission_tui.fleet.events.metrics import Metric, spoken
from mission_tui.fleet.specs.sb3_algorithms import other_algorithm
from mission_tui.fleet.specs.spec import EnvSpec
from mission_tui.fleet.text import clean
from mission_tui.fleet.views import played_frame
from mission_tui.procfs import call_process
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.learner import Learner
from mission_tui.trainer.playing.evaluate import subject, trained_model
from mission_tui.trainer.playing.show import half_blocks, pixels_of, text_or_frame
from mission_tui.trainer.process import Say, answer, cap_threads, lower_priority
from mission_tui.trainer.torch_compiler import use_plain_optimizers
from mission_tui.trainer.vec_env import build_vec_env
from mission_tui.trainer.vec_env.build import EnvMaker
from mission_tui.trainer.vec_env.episodes import outcome_of
from mission_tui.trainer.vec_env.in_process import InlineVecEnv

MOST_BYTES = 4 << 30
"""Of data: torch without a GPU takes some 300 MB of it, and an environment what it takes."""
FIRST_SEED = 10_000
_NOTE_CHARACTERS = 300
_MODES: tuple[tuple[str, played_frame.Drawn], ...] = (("ansi", "text"), ("rgb_array", "pixels"))
"""What can be drawn in a terminal, the better one first."""


def main(arguments: list[str] | None = None) -> int:
    """Play as long as somebody asks; returns the exit code."""
    parser = argparse.ArgumentParser(prog="mission_tui.trainer.playing.watch", description="Play to be watched.")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--parent", type=int, default=0)
    parsed = parser.parse_args(arguments)
    begin_playing("watch", parsed.run_dir, parsed.parent)
    return answer(lambda say: _play(parsed, say))


def begin_playing(word: str, run_dir: Path, parent: int) -> None:
    """Be a process that plays and comes after the screen; one with a `parent` ends with it, and fails if it takes more
    and more memory, before its machine does.
    """
    die_with(parent)
    if parent:
        call_process(word, run_dir.name)
        _bound_memory()
    lower_priority(own_session=False)
    cap_threads(1)
    use_plain_optimizers()


def _bound_memory() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    bound = MOST_BYTES if most == resource.RLIM_INFINITY else min(MOST_BYTES, most)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (bound, most))


def _play(parsed: argparse.Namespace, say: Say) -> None:
    # The orders are ours alone: an environment that reads stdin gets nothing of them.
    orders = os.fdopen(os.dup(0), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    run_dir = RunDir(parsed.run_dir.resolve())
    player = Player(run_dir, parsed.checkpoint)
    try:
        for line in orders:
            order = msgspec.json.decode(line, type=played_frame.PlayOrder)
            if order.checkpoint not in (None, player.checkpoint):
                # Another one in the same process: what takes seconds, torch, is loaded already.
                player.close()
                player = Player(run_dir, order.checkpoint)
            say({"frame": msgspec.to_builtins(player.play(order))})
    finally:
        player.close()


Choose = Callable[[EnvSpec, Path], tuple[EnvSpec, played_frame.Drawn, str]]
"""`env` under its rules, so that it draws if it can, how, and why it does not if it cannot."""
Draw = Callable[[gymnasium.Env[Any, Any], played_frame.Drawn, played_frame.Canvas], str | played_frame.PixelPicture]
"""What there is to see of the environment now, as text or in pixels."""


class Player:
    """One environment and the policy of a checkpoint. Raises what `subject` and `trained_model` raise.

    `choose` and `draw` are for other pictures than text.
    """

    def __init__(
        self, run_dir: RunDir, checkpoint: str, choose: Choose | None = None, draw: Draw | None = None
    ) -> None:
        loaded, trained, rules = subject(run_dir, checkpoint)
        self._manifest = loaded.manifest
        one = structs.replace(trained.env, vec="inline", n_envs=1, n_workers=None)
        env, self._drawn, self._note = (choose or in_text)(one, rules)
        self._draw = draw or _in_a_terminal
        spec = structs.replace(trained, env=env)
        self._vec = build_vec_env(spec, rules).vec
        self._model = trained_model(spec, self._vec, loaded)
        assert self._model.env is not None
        self._env: VecEnv = self._model.env
        self._act = self._model.player(self._env, deterministic=True)
        self._opinion = PolicyReadout(self._model, self._env)
        self._shown = _SeenBeforeReset.around(self._vec)
        self._names = _names_of(self._shown)
        self._seed = FIRST_SEED - 1
        self._step, self._return = 0, 0.0
        self._over = True
        self._outcome: str | None = None
        self._last_picture: str | played_frame.PixelPicture = ""
        self._last_text = ""
        self._decision = _Decision(np.zeros(0), (), None)

    @property
    def checkpoint(self) -> str:
        """The name of the one that plays."""
        return self._manifest.name

    def play(self, order: played_frame.PlayOrder) -> played_frame.PlayedFrame:
        """Go as far as was asked, and no further than to the end of the episode; what is seen there.

        Raises `EnvError` for an environment that fails.
        """
        self._shown.before_reset = lambda: self._ending(order.canvas)
        if order.restart or order.seed is not None or (self._over and (order.steps or not self._last_picture)):
            self._begin(self._seed + 1 if order.seed is None else order.seed)
        elif not self._over:
            for _ in range(order.steps):
                if self._advance():
                    break
        if not self._over:
            self._last_picture = self._picture(order.canvas)
        picture = self._last_picture
        if order.canvas.cell is None and not isinstance(picture, str):
            picture = self._last_text  # it is over, and cannot be drawn again
        return played_frame.PlayedFrame(
            picture=picture if isinstance(picture, str) else "",
            pixels=None if isinstance(picture, str) else picture,
            drawn=self._drawn,
            checkpoint=self._manifest.name,
            timesteps=self._manifest.timesteps,
            seed=self._seed,
            step=self._step,
            episode_return=spoken(self._return),
            over=self._over,
            outcome=self._outcome,
            heads=self._decision.heads,
            value=self._decision.value,
            note=self._note,
        )

    def close(self) -> None:
        """Close the environment."""
        self._vec.close()

    def _begin(self, seed: int) -> None:
        self._seed = seed % 2**32
        self._env.seed(self._seed)
        self._step, self._return, self._over, self._outcome = 0, 0.0, False, None
        self._shown.picture = None
        self._decide(self._env.reset(), np.ones(1, dtype=bool))

    def _advance(self) -> bool:
        """One step; whether it ended the episode."""
        self._shown.picture = None
        observations, _, starts, infos = self._env.step(self._decision.actions)
        self._step += 1
        self._return += self._shown.reward
        if starts[0]:
            self._over, self._outcome = True, outcome_of(infos[0])
            self._last_picture = self._shown.picture or ""
        else:
            self._decide(observations, starts)
        return self._over

    def _decide(self, observations: Any, starts: Any) -> None:
        heads, value = self._opinion.of(observations, starts)
        actions = self._act(observations, starts)
        flat = np.asarray(actions, dtype=float).reshape(-1)
        heads = tuple(
            structs.replace(
                head,
                taken=spoken(float(it)),
                names=self._names if len(self._names) == len(head.probabilities or head.values) else (),
            )
            for head, it in zip(heads, flat, strict=False)
        )
        self._decision = _Decision(actions, heads, value)

    def _ending(self, canvas: played_frame.Canvas) -> str | played_frame.PixelPicture:
        """How it ended, which is drawn only now: also for a screen that takes no pixels any more meanwhile."""
        if canvas.cell is not None:
            text = self._picture(structs.replace(canvas, cell=None))
            self._last_text = text if isinstance(text, str) else ""
        return self._picture(canvas)

    def _picture(self, canvas: played_frame.Canvas) -> str | played_frame.PixelPicture:
        """What there is to see now; whatever goes wrong with that is a note, and the numbers go on."""
        if self._drawn == "nothing":
            return ""
        try:
            return self._draw(self._shown.env, self._drawn, canvas)
        except Exception as error:  # noqa: BLE001 - a drawing is foreign code and may raise anything
            self._drawn = "nothing"
            self._note = _sentence(f"no picture: {raised_by(error)}")
            return ""


def _in_a_terminal(
    env: gymnasium.Env[Any, Any], drawn: played_frame.Drawn, canvas: played_frame.Canvas
) -> str | played_frame.PixelPicture:
    if drawn == "state":
        return picture_of_state(env.unwrapped, canvas.columns, canvas.lines)
    said = text_or_frame(env.render())
    if isinstance(said, str):
        return said
    if canvas.cell is not None:
        pixels = pixels_of(said, canvas)
        if max(len(pixels.png), len(pixels.sixels)) <= played_frame.MOST_PNG_BYTES:
            return pixels
    return half_blocks(said, canvas)


class _Decision:
    def __init__(self, actions: Any, heads: tuple[played_frame.ActionHead, ...], value: Metric | None) -> None:
        self.actions, self.heads, self.value = actions, heads, value


class _SeenBeforeReset(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Around all of an environment: SB3 resets in the step that ends an episode, and how it ended would not be seen.

    `picture` is what `before_reset` drew then; `reward` is that of the last step, as the task gave it.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.before_reset: Callable[[], str | played_frame.PixelPicture] = str
        self.picture: str | played_frame.PixelPicture | None = None
        self.reward = 0.0
        self._ended = False
        self._counted = 0
        self._monitor = _monitor(env)

    @classmethod
    def around(cls, vec: VecEnv) -> _SeenBeforeReset:
        """Put one around the only environment of `vec`."""
        inline = vec.unwrapped
        assert isinstance(inline, InlineVecEnv)
        inline.envs[0] = seen = cls(inline.envs[0])
        return seen

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._ended = terminated or truncated
        # A wrapper of the run may have changed the reward, or stepped several times.
        rewards = self._monitor.rewards
        self.reward, self._counted = float(sum(rewards[self._counted :])), len(rewards)
        return observation, reward, terminated, truncated, info

    def reset(self, **arguments: Any) -> Any:
        if self._ended:
            self._ended, self.picture = False, self.before_reset()
        self._counted = 0
        return self.env.reset(**arguments)


def _monitor(env: gymnasium.Env[Any, Any]) -> Monitor[Any, Any]:
    while not isinstance(env, Monitor):
        assert isinstance(env, gymnasium.Wrapper)
        env = env.env
    return env


def in_text(env: EnvSpec, rules: Path) -> tuple[EnvSpec, played_frame.Drawn, str]:
    """`env` as it is drawn in a terminal: from its state before its own text, and its pixels last."""
    plain = structs.replace(env, kwargs={name: it for name, it in env.kwargs.items() if name != "render_mode"})
    made = EnvMaker(plain, rules)()
    try:
        if can_draw(made.unwrapped):
            return plain, "state", ""
        said = made.metadata.get("render_modes", ())
    finally:
        made.close()
    modes = [str(mode) for mode in said] if isinstance(said, list | tuple | set | frozenset) else []
    note = f"no picture: '{env.id}' draws neither text (ansi) nor frames (rgb_array); the numbers are all there is"
    for mode, drawn in _MODES:
        if mode not in modes:
            continue
        drawing = structs.replace(plain, kwargs={**plain.kwargs, "render_mode": mode})
        try:
            EnvMaker(drawing, rules)().close()
        except PresetError as error:
            note = f"no picture: {error}"
        else:
            return drawing, drawn, ""
    return plain, "nothing", _sentence(note)


def _names_of(env: gymnasium.Env[Any, Any]) -> tuple[str, ...]:
    with suppress(Exception):  # somebody else's code, which need not answer
        return tuple(clean(name, played_frame.MOST_NAME) for name in action_names(env)[: played_frame.MOST_CHOICES])
    return ()


def _sentence(text: str) -> str:
    return clean(text, _NOTE_CHARACTERS)


class PolicyReadout:
    """What the policy says of its next action, one head for each part of it, and its critic's value of the state.

    Asked once for each step, because a recurrent policy remembers what it saw: `starts` say where an episode begins.
    """

    def __init__(self, model: Learner, env: VecEnv) -> None:
        self._model, self._env = model, env
        self._memory: Any = None

    @th.no_grad()
    def of(self, observations: Any, starts: Any) -> tuple[tuple[played_frame.ActionHead, ...], Metric | None]:
        """Of the state that `observations`, a batch of one, show."""
        model, policy = self._model, cast(Any, self._model.policy)
        policy.set_training_mode(False)
        tensor = policy.obs_to_tensor(observations)[0]
        if model.algo == "recurrent_ppo":
            return self._remembered(policy, tensor, starts)
        if (other := other_algorithm(model.algo)) is not None and other.off_policy:
            return _valued(policy, tensor)
        if not hasattr(policy, "get_distribution"):
            return _certain(policy(tensor)[0], model.action_space), None
        if model.algo == "maskable_ppo":
            masks = np.stack(self._env.env_method(MASKS))
            distribution = policy.get_distribution(tensor, action_masks=masks)
        else:
            distribution = policy.get_distribution(tensor)
        value = spoken(float(policy.predict_values(tensor)[0, 0]))
        return heads_of(distribution), value

    def _remembered(
        self, policy: Any, observation: Any, starts: Any
    ) -> tuple[tuple[played_frame.ActionHead, ...], Metric | None]:
        """Of a policy with LSTMs, whose states, each of shape (layers, 1, units), begin at zero with every episode."""
        if self._memory is None:
            empty = tuple(th.zeros(policy.lstm_hidden_state_shape, device=policy.device) for _ in range(2))
            self._memory = type(self._model._last_lstm_states)(empty, empty)  # type: ignore[attr-defined]
        begins = th.as_tensor(np.asarray(starts, dtype=np.float32), device=policy.device)
        _, values, _, self._memory = policy.forward(observation, self._memory, begins, deterministic=True)
        # What `forward` has drawn its action from; SB3's policies have one distribution, which they fill anew.
        return heads_of(policy.action_dist), spoken(float(values[0, 0]))


def _valued(policy: Any, observation: Any) -> tuple[tuple[played_frame.ActionHead, ...], Metric | None]:
    """Of an off-policy algorithm: the mean and spread of what its actor does where it draws, its action where it does
    not (TD3), the values of all actions where there is no actor (DQN); and what its critic, or the best of those
    values, says of the state.
    """
    values = getattr(policy, "q_net", None) or getattr(policy, "quantile_net", None)
    if values is not None:
        said = values(observation)
        # QR-DQN has quantiles of each action, shape (1, quantiles, actions).
        each = said.mean(dim=1) if said.ndim == 3 else said
        known = tuple(spoken(float(it)) for it in each[0].tolist()[: played_frame.MOST_CHOICES])
        return (played_frame.ActionHead(taken=0.0, values=known),), spoken(float(each[0].max()))
    actor = policy.actor
    heads: tuple[played_frame.ActionHead, ...] = ()
    if hasattr(actor, "get_action_dist_params"):
        mean, log_std, _ = actor.get_action_dist_params(observation)
        pairs = zip(th.tanh(mean)[0].tolist(), log_std[0].exp().tolist(), strict=True)
        heads = tuple(played_frame.ActionHead(taken=0.0, mean=spoken(it), std=spoken(std)) for it, std in pairs)[
            : played_frame.MOST_HEADS
        ]
    action = actor(observation, deterministic=True) if heads else actor(observation)
    if not heads:
        heads = tuple(played_frame.ActionHead(taken=0.0) for _ in action[0][: played_frame.MOST_HEADS])
    said = policy.critic(observation, action)
    parts = said if isinstance(said, tuple) else (said,)
    # The smallest of the critics', as the algorithms take it; TQC's are quantiles of each.
    return heads, spoken(min(float(part[0].mean()) for part in parts))


def _certain(action: th.Tensor, space: gymnasium.Space[Any]) -> tuple[played_frame.ActionHead, ...]:
    """Of ARS, which draws nothing: the one choice that it takes, or the action alone."""
    if isinstance(space, gymnasium.spaces.Discrete):
        choices = min(int(space.n), played_frame.MOST_CHOICES)
        shares = tuple(float(choice == int(action)) for choice in range(choices))
        return (played_frame.ActionHead(taken=0.0, probabilities=shares),)
    return tuple(played_frame.ActionHead(taken=0.0) for _ in action.flatten()[: played_frame.MOST_HEADS])


def heads_of(distribution: Any) -> tuple[played_frame.ActionHead, ...]:
    """The heads of one of SB3's distributions over a batch of one; none for a kind of its own."""
    inside: Any = getattr(distribution, "distributions", None) or getattr(distribution, "distribution", None)
    parts = list(inside) if isinstance(inside, list | tuple) else [inside]
    heads: list[played_frame.ActionHead] = []
    for part in parts:
        match part:
            case th.distributions.Categorical():
                heads.append(played_frame.ActionHead(taken=0.0, probabilities=_shares(part.probs[0])))
            case th.distributions.Bernoulli():
                heads += [played_frame.ActionHead(taken=0.0, probabilities=(1 - p, p)) for p in _shares(part.probs[0])]
            case th.distributions.Normal():
                pairs = zip(part.mean[0].tolist(), part.stddev[0].tolist(), strict=True)
                heads += [played_frame.ActionHead(taken=0.0, mean=spoken(mean), std=spoken(std)) for mean, std in pairs]
    return tuple(heads[: played_frame.MOST_HEADS])


def _shares(probabilities: th.Tensor) -> tuple[float, ...]:
    return tuple(round(float(it), 4) for it in probabilities.tolist()[: played_frame.MOST_CHOICES])


if __name__ == "__main__":
    sys.exit(main())
