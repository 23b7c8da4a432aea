"""PPO on CartPole-v1 as others run it, each a program of its own that prints its median speed as JSON.

`sbx` and `stock` are other people's packages. `cleanrl`, `pufferlib` and `bare` are written here: the first two in the
shape of the loops that CleanRL's `ppo.py` and PufferLib's `PuffeRL` publish, with what those do at every step and every
minibatch (neither is a package that trains on a CPU as it is); the third is the least that a loop in torch needs, on
environments that step together and with a fused Adam.

Run: python -m benchmarks.peers.loops SHAPE [--n-envs 16] [--batch 512] [--seconds 5]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

STEPS, EPOCHS, WIDTH = 128, 4, 64
WARM_UP = 2
GAMMA, LAMBDA, CLIP = 0.99, 0.95, 0.2
ENV = "CartPole-v1"


def timed(turn: Callable[[], None], transitions: int, seconds: float) -> float:
    """The median speed of `turn`, in transitions a second, over `seconds` after a warm-up."""
    for _ in range(WARM_UP):
        turn()
    took, until = list[float](), time.perf_counter() + seconds
    while time.perf_counter() < until or len(took) < WARM_UP:
        begun = time.perf_counter()
        turn()
        took.append(time.perf_counter() - begun)
    return transitions / statistics.median(took)


def networks(inputs: int, outputs: int) -> tuple[Any, Any]:
    """Actor and critic, two tanh layers of 64 each."""
    from torch import nn

    def net(last: int) -> Any:
        return nn.Sequential(
            nn.Linear(inputs, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, last)
        )

    return net(outputs), net(1)


def clipped_loss(new: Any, old: Any, advantages: Any) -> Any:
    """PPO's objective, normalised over the minibatch."""
    import torch as th

    ratio = (new - old).exp()
    gain = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    return th.max(-gain * ratio, -gain * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()


def advantages_of(rewards: Any, values: Any, dones: Any, last_value: Any, last_done: Any) -> Any:
    """GAE, step by step from the end; all of shape (steps, lanes)."""
    import torch as th

    advantages, running = th.zeros_like(rewards), th.zeros_like(last_value)
    for step in reversed(range(len(rewards))):
        final = step == len(rewards) - 1
        going_on = 1.0 - (last_done if final else dones[step + 1])
        following = last_value if final else values[step + 1]
        delta = rewards[step] + GAMMA * following * going_on - values[step]
        advantages[step] = running = delta + GAMMA * LAMBDA * going_on * running
    return advantages


def cleanrl(n_envs: int, batch: int, seconds: float) -> float:
    """CleanRL's shape: Gymnasium's SyncVectorEnv, `Categorical` at every step, diagnostics read at every minibatch."""
    import gymnasium
    import numpy as np
    import torch as th
    from torch.distributions import Categorical

    def make() -> Any:
        return gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make(ENV))

    envs = gymnasium.vector.SyncVectorEnv([make] * n_envs)
    actor, critic = networks(4, 2)
    parameters = [*actor.parameters(), *critic.parameters()]
    optimizer = th.optim.Adam(parameters, lr=2.5e-4, eps=1e-5)
    observations = th.zeros(STEPS, n_envs, 4)
    actions, log_probs, rewards, dones, values = (th.zeros(STEPS, n_envs) for _ in range(5))
    first, _ = envs.reset(seed=1)
    now = {"observation": th.Tensor(first), "done": th.zeros(n_envs)}

    def judged(observation: Any, action: Any = None) -> tuple[Any, Any, Any, Any]:
        chances = Categorical(logits=actor(observation))
        if action is None:
            action = chances.sample()  # type: ignore[no-untyped-call]
        return action, chances.log_prob(action), chances.entropy(), critic(observation)  # type: ignore[no-untyped-call]

    def turn() -> None:
        for step in range(STEPS):
            observations[step], dones[step] = now["observation"], now["done"]
            with th.no_grad():
                action, log_prob, _, value = judged(now["observation"])
                values[step] = value.flatten()
            actions[step], log_probs[step] = action, log_prob
            observation, reward, terminated, truncated, _ = envs.step(action.cpu().numpy())
            rewards[step] = th.tensor(reward).view(-1)
            now["observation"] = th.Tensor(observation)
            now["done"] = th.Tensor(np.logical_or(terminated, truncated))
        with th.no_grad():
            last = critic(now["observation"]).flatten()
            advantages = advantages_of(rewards, values, dones, last, now["done"])
            returns = advantages + values
        flat = [observations.flatten(0, 1), *(part.flatten() for part in (actions, log_probs, advantages, returns))]
        order, clipped = np.arange(STEPS * n_envs), []
        for _ in range(EPOCHS):
            np.random.shuffle(order)
            for start in range(0, len(order), batch):
                chosen = order[start : start + batch]
                seen, done, old, gain, wanted = (part[chosen] for part in flat)
                _, new, entropy, value = judged(seen, done.long())
                with th.no_grad():
                    ratio = (new - old).exp()
                    clipped.append(((ratio - 1.0).abs() > CLIP).float().mean().item())
                    ((ratio - 1) - (new - old)).mean()
                loss = clipped_loss(new, old, gain)
                value_loss = 0.5 * ((value.view(-1) - wanted) ** 2).mean()
                total = loss - 0.01 * entropy.mean() + 0.5 * value_loss
                optimizer.zero_grad()
                total.backward()
                th.nn.utils.clip_grad_norm_(parameters, 0.5)
                optimizer.step()

    return timed(turn, STEPS * n_envs, seconds)


def pufferlib(n_envs: int, batch: int, seconds: float) -> float:
    """PufferLib's shape: environments write into one buffer, whole segments are learned from, losses summed as read."""
    import gymnasium
    import numpy as np
    import torch as th

    envs = [gymnasium.make(ENV) for _ in range(n_envs)]
    seen, paid, over = np.zeros((n_envs, 4), np.float32), np.zeros(n_envs, np.float32), np.zeros(n_envs, np.bool_)
    for lane, env in enumerate(envs):
        seen[lane], _ = env.reset(seed=lane)
    actor, critic = networks(4, 2)
    parameters = [*actor.parameters(), *critic.parameters()]
    optimizer = th.optim.Adam(parameters, lr=2.5e-4, eps=1e-5)
    observations = th.zeros(n_envs, STEPS, 4)
    actions = th.zeros(n_envs, STEPS, dtype=th.int64)
    log_probs, rewards, dones, values = (th.zeros(n_envs, STEPS) for _ in range(4))
    segments = max(1, batch // STEPS)

    def step_all(chosen: Any) -> None:
        for lane, env in enumerate(envs):
            if over[lane]:
                seen[lane], _ = env.reset()
                paid[lane], over[lane] = 0.0, False
                continue
            seen[lane], paid[lane], terminated, truncated, _ = env.step(int(chosen[lane]))
            over[lane] = terminated or truncated

    def turn() -> None:
        for step in range(STEPS):
            with th.no_grad():
                observation = th.as_tensor(seen)
                logits, value = actor(observation), critic(observation)
                normalized = logits - logits.logsumexp(dim=-1, keepdim=True)
                action = th.multinomial(normalized.exp(), 1).squeeze(-1)
                observations[:, step], actions[:, step] = observation, action
                log_probs[:, step] = normalized.gather(-1, action[:, None]).squeeze(-1)
                rewards[:, step], dones[:, step] = th.as_tensor(paid).clamp(-1, 1), th.as_tensor(over).float()
                values[:, step] = value.flatten()
            step_all(action.numpy())
        told = dict.fromkeys(("policy", "value", "entropy", "kl", "clipped"), 0.0)
        for _ in range(EPOCHS * max(1, n_envs // segments)):
            with th.no_grad():
                parts = (rewards.T, values.T, dones.T, values[:, -1], dones[:, -1])
                advantages = advantages_of(*parts).T
            chosen = th.multinomial(advantages.abs().sum(1) + 1e-6, min(segments, n_envs))
            flat = observations[chosen].reshape(-1, 4)
            logits, value = actor(flat), critic(flat).view(len(chosen), STEPS)
            normalized = logits - logits.logsumexp(dim=-1, keepdim=True)
            new = normalized.gather(-1, actions[chosen].reshape(-1, 1)).view(len(chosen), STEPS)
            entropy = -(normalized * normalized.exp()).sum(-1).mean()
            old, gain = log_probs[chosen], advantages[chosen]
            with th.no_grad():
                ratio = (new - old).exp()
                kl, clipped = ((ratio - 1) - (new - old)).mean(), ((ratio - 1.0).abs() > CLIP).float().mean()
            loss = clipped_loss(new, old, gain)
            wanted = gain + values[chosen]
            held = values[chosen] + (value - values[chosen]).clamp(-CLIP, CLIP)
            value_loss = 0.5 * th.max((value - wanted) ** 2, (held - wanted) ** 2).mean()
            for name, part in zip(told, (loss, value_loss, entropy, kl, clipped), strict=True):
                told[name] += part.item()
            (loss + 0.5 * value_loss - 0.01 * entropy).backward()
            th.nn.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()
            optimizer.zero_grad()

    return timed(turn, STEPS * n_envs, seconds)


def bare(n_envs: int, batch: int, seconds: float) -> float:
    """The least that torch needs: environments that step together, autograd, a fused Adam, nothing told."""
    import torch as th

    from benchmarks.ppo.batched_cartpole import BatchedCartPole

    env = BatchedCartPole(n_envs)
    actor, critic = networks(4, 2)
    parameters = [*actor.parameters(), *critic.parameters()]
    optimizer = th.optim.Adam(parameters, lr=3e-4, eps=1e-5, fused=True)
    observations = th.zeros(STEPS, n_envs, 4)
    actions = th.zeros(STEPS, n_envs, dtype=th.int64)
    log_probs, rewards, values, dones = (th.zeros(STEPS, n_envs) for _ in range(4))
    now = {"observation": th.as_tensor(env.reset()), "done": th.zeros(n_envs)}

    def turn() -> None:
        with th.inference_mode():
            for step in range(STEPS):
                observations[step], dones[step] = now["observation"], now["done"]
                logits = actor(now["observation"])
                action = (logits - th.empty_like(logits).exponential_().log()).argmax(-1)
                actions[step], values[step] = action, critic(now["observation"]).squeeze(-1)
                log_probs[step] = logits.log_softmax(-1).gather(-1, action[:, None]).squeeze(-1)
                env.step_async(action.numpy())
                observation, reward, over, _ = env.step_wait()
                rewards[step] = th.as_tensor(reward)
                now["observation"], now["done"] = th.as_tensor(observation), th.as_tensor(over).float()
            last = critic(now["observation"]).squeeze(-1)
            advantages = advantages_of(rewards, values, dones, last, now["done"])
        flat = [part.flatten().clone() for part in (log_probs, advantages, advantages + values)]
        for _ in range(EPOCHS):
            for chosen in th.split(th.randperm(STEPS * n_envs), batch):
                seen, done = observations.flatten(0, 1)[chosen], actions.flatten()[chosen]
                old, gain, wanted = (part[chosen] for part in flat)
                new = actor(seen).log_softmax(-1).gather(-1, done[:, None]).squeeze(-1)
                value_loss = th.nn.functional.mse_loss(critic(seen).squeeze(-1), wanted)
                optimizer.zero_grad(set_to_none=True)
                (clipped_loss(new, old, gain) + 0.5 * value_loss).backward()
                th.nn.utils.clip_grad_norm_(parameters, 0.5)
                optimizer.step()

    return timed(turn, STEPS * n_envs, seconds)


def packaged(ppo: Any, n_envs: int, batch: int, seconds: float) -> float:
    """An SB3-like PPO class on SB3's DummyVecEnv."""
    from stable_baselines3.common.env_util import make_vec_env

    shape = {"n_steps": STEPS, "batch_size": batch, "n_epochs": EPOCHS}
    model = ppo("MlpPolicy", make_vec_env(ENV, n_envs), policy_kwargs={"net_arch": [WIDTH, WIDTH]}, **shape)

    def turn() -> None:
        model.learn(STEPS * n_envs, reset_num_timesteps=False)

    return timed(turn, STEPS * n_envs, seconds)


def stock(n_envs: int, batch: int, seconds: float) -> float:
    """Stable-Baselines3 in a process of its own."""
    from stable_baselines3 import PPO

    return packaged(PPO, n_envs, batch, seconds)


def sbx(n_envs: int, batch: int, seconds: float) -> float:
    """Its JAX sibling."""
    return packaged(importlib.import_module("sbx").PPO, n_envs, batch, seconds)


SHAPES = {each.__name__: each for each in (cleanrl, pufferlib, bare, stock, sbx)}


def main() -> None:
    """Run one of them, on as many threads as OMP_NUM_THREADS says; one where it says nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--n-envs", type=int, default=16)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=5.0)
    asked = parser.parse_args()
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    rate = SHAPES[asked.shape](asked.n_envs, asked.batch, asked.seconds)
    print(json.dumps({"sps_med": rate}))


if __name__ == "__main__":
    main()
