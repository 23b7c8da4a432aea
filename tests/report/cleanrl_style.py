"""PPO in one file, as CleanRL writes it; the lines with `report` are all that mission-tui needs. Words: updates."""

# mypy: disable-error-code="no-untyped-call,assignment,var-annotated"

import sys

import gymnasium as gym
import numpy as np
import torch as th
from torch.distributions import Categorical

from mission_tui import report

N_ENVS, N_STEPS, EPOCHS, CLIP = 4, 64, 4, 0.2
th.manual_seed(1)
envs = gym.vector.SyncVectorEnv(
    [lambda: gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1")) for _ in range(N_ENVS)],
    autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,
)
actor = th.nn.Sequential(th.nn.Linear(4, 64), th.nn.Tanh(), th.nn.Linear(64, 2))
critic = th.nn.Sequential(th.nn.Linear(4, 64), th.nn.Tanh(), th.nn.Linear(64, 1))
optimizer = th.optim.Adam([*actor.parameters(), *critic.parameters()], lr=2.5e-3)
obs, _ = envs.reset(seed=1)
steps = 0
for _ in range(int(sys.argv[1])):
    # recipe: in the loop
    report.phase("rollout")
    seen, acted, said, rewards, dones, values = [], [], [], [], [], []
    for _ in range(N_STEPS):
        with th.no_grad():
            policy = Categorical(logits=actor(th.tensor(obs)))
            action = policy.sample()
            values.append(critic(th.tensor(obs)).flatten())
        seen.append(th.tensor(obs))
        acted.append(action)
        said.append(policy.log_prob(action))
        obs, reward, ended, cut, infos = envs.step(action.numpy())
        steps += N_ENVS
        rewards.append(th.tensor(reward, dtype=th.float32))
        dones.append(th.tensor(ended | cut, dtype=th.float32))
        for place in np.flatnonzero(ended | cut):
            episode = infos["final_info"]["episode"]
            report.episode(episode["r"][place], episode["l"][place])
    report.phase("update")
    # end
    with th.no_grad():
        following, advantage, advantages = critic(th.tensor(obs)).flatten(), th.zeros(N_ENVS), []
        for t in reversed(range(N_STEPS)):
            delta = rewards[t] + 0.99 * following * (1 - dones[t]) - values[t]
            advantage = delta + 0.99 * 0.95 * (1 - dones[t]) * advantage
            following = values[t]
            advantages.insert(0, advantage)
    flat = [th.cat(part) for part in (seen, acted, said, advantages, values)]
    returns = flat[3] + flat[4]
    for _ in range(EPOCHS):
        for rows in th.randperm(N_ENVS * N_STEPS).split(64):
            b_obs, b_act, b_said, b_adv = (part[rows] for part in flat[:4])
            policy = Categorical(logits=actor(b_obs))
            log_ratio = policy.log_prob(b_act) - b_said
            ratio = log_ratio.exp()
            b_adv = (b_adv - b_adv.mean()) / (b_adv.std() + 1e-8)
            policy_loss = -th.min(b_adv * ratio, b_adv * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
            value_loss = (critic(b_obs).flatten() - returns[rows]).pow(2).mean()
            entropy = policy.entropy().mean()
            optimizer.zero_grad()
            (policy_loss + 0.5 * value_loss - 0.01 * entropy).backward()
            optimizer.step()
    approx_kl = ((ratio - 1) - log_ratio).mean().item()
    clip_fraction = ((ratio - 1).abs() > CLIP).float().mean().item()
    # recipe: at its end
    report.update(
        timesteps=steps,
        approx_kl=approx_kl,
        clip_fraction=clip_fraction,
        clip_range=CLIP,
        entropy_loss=-entropy.item(),
        value_loss=value_loss.item(),
        learning_rate=optimizer.param_groups[0]["lr"],
    )
    if report.should_stop():
        break
    # end
