"""PPO in the shape of PufferLib's trainer, which evaluates and trains by turns and hands its logs to a logger. The
class `Reporter` and the lines of the loop with `report` are all that mission-tui needs. Words: updates, and a module
whose `trainer` to use.

PufferLib itself has to be compiled where it is installed (`pufferlib_cartpole` has its trainer); without it this
program has its loop, its names and its logger.
"""

# mypy: disable-error-code="no-untyped-call,no-untyped-def,var-annotated"

import importlib
import sys
from collections import defaultdict

import gymnasium as gym
import numpy as np
import torch as th
from torch.distributions import Categorical

from mission_tui import report

# recipe: a logger
NAMES = {"approx_kl": "approx_kl", "clipfrac": "clip_fraction", "value_loss": "value_loss"}
NAMES |= {"explained_variance": "explained_variance", "policy_loss": "policy_gradient_loss"}


class Reporter:
    run_id = "mission-tui"

    def __init__(self, total_timesteps):
        self.total_timesteps = total_timesteps

    def log(self, logs, step):
        losses = {ours: logs[f"losses/{name}"] for name, ours in NAMES.items() if f"losses/{name}" in logs}
        if "losses/entropy" in logs:
            losses["entropy_loss"] = -logs["losses/entropy"]
        if "environment/episode_return" in logs:
            losses["rollout/ep_rew_mean"] = logs["environment/episode_return"]
            losses["rollout/ep_len_mean"] = logs["environment/episode_length"]
        report.update(step, self.total_timesteps, learning_rate=logs["learning_rate"], **losses)

    def close(self, model_path):
        report.checkpoint(model_path)


# end


class Trainer:
    """What `PuffeRL` is, as far as a script sees it."""

    def __init__(self, total_timesteps, logger, lanes=8, horizon=32):
        self.total_timesteps, self.logger, self.horizon, self.lanes = total_timesteps, logger, horizon, lanes
        make = lambda: gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))  # noqa: E731
        same_step = gym.vector.AutoresetMode.SAME_STEP
        self.envs = gym.vector.SyncVectorEnv([make] * lanes, autoreset_mode=same_step)
        self.actor = th.nn.Sequential(th.nn.Linear(4, 64), th.nn.Tanh(), th.nn.Linear(64, 2))
        self.critic = th.nn.Sequential(th.nn.Linear(4, 64), th.nn.Tanh(), th.nn.Linear(64, 1))
        self.optimizer = th.optim.Adam([*self.actor.parameters(), *self.critic.parameters()], lr=2.5e-3)
        self.obs, _ = self.envs.reset(seed=1)
        self.global_step, self.stats = 0, defaultdict(list)

    def evaluate(self):
        self.kept = []
        for _ in range(self.horizon):
            with th.no_grad():
                seen = th.tensor(self.obs)
                policy = Categorical(logits=self.actor(seen))
                action, value = policy.sample(), self.critic(seen).flatten()
            self.obs, reward, ended, cut, infos = self.envs.step(action.numpy())
            done = th.tensor(ended | cut, dtype=th.float32)
            self.kept.append((seen, action, policy.log_prob(action), value, th.tensor(reward, dtype=th.float32), done))
            self.global_step += self.lanes
            for place in np.flatnonzero(ended | cut):
                self.stats["episode_return"].append(infos["final_info"]["episode"]["r"][place])
                self.stats["episode_length"].append(infos["final_info"]["episode"]["l"][place])
        return self.stats

    def train(self):
        obs, action, said, value, reward, done = (th.stack(part) for part in zip(*self.kept, strict=True))
        with th.no_grad():
            following, running, gains = self.critic(th.tensor(self.obs)).flatten(), th.zeros(self.lanes), []
            for t in reversed(range(self.horizon)):
                delta = reward[t] + 0.99 * following * (1 - done[t]) - value[t]
                running, following = delta + 0.99 * 0.95 * (1 - done[t]) * running, value[t]
                gains.insert(0, running)
        gain = th.stack(gains)
        wanted = gain + value
        flat = [part.flatten(0, 1) for part in (obs, action, said, gain, wanted)]
        losses, turns = defaultdict(float), 16
        for _ in range(turns):
            rows = th.randperm(len(flat[0]))[:64]
            b_obs, b_act, b_said, b_gain, b_wanted = (part[rows] for part in flat)
            policy = Categorical(logits=self.actor(b_obs))
            log_ratio = policy.log_prob(b_act) - b_said
            ratio = log_ratio.exp()
            b_gain = (b_gain - b_gain.mean()) / (b_gain.std() + 1e-8)
            policy_loss = -th.min(b_gain * ratio, b_gain * ratio.clamp(0.8, 1.2)).mean()
            value_loss = (self.critic(b_obs).flatten() - b_wanted).pow(2).mean()
            entropy = policy.entropy().mean()
            self.optimizer.zero_grad()
            (policy_loss + 0.5 * value_loss - 0.01 * entropy).backward()
            self.optimizer.step()
            found = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
            found["approx_kl"] = ((ratio - 1) - log_ratio).mean()
            found["clipfrac"] = ((ratio - 1).abs() > 0.2).float().mean()
            for name, each in found.items():
                losses[name] += each.item() / turns
        losses["explained_variance"] = 1 - ((wanted - value).var() / wanted.var()).item()
        logs = {"agent_steps": self.global_step, "learning_rate": self.optimizer.param_groups[0]["lr"]}
        logs |= {f"losses/{name}": each for name, each in losses.items()}
        logs |= {f"environment/{name}": float(np.mean(each)) for name, each in self.stats.items()}
        self.stats = defaultdict(list)
        self.logger.log(logs, self.global_step)
        return logs

    def close(self):
        th.save(self.actor.state_dict(), "policy.pt")
        return "policy.pt"


th.manual_seed(1)
total_timesteps = 256 * int(sys.argv[1])
if sys.argv[2:]:
    Trainer = importlib.import_module(sys.argv[2]).trainer  # type: ignore[misc]
# recipe: the loop
logger = Reporter(total_timesteps)
trainer = Trainer(total_timesteps, logger)  # yours: pufferl.PuffeRL(config, vecenv, policy, logger)
while trainer.global_step < total_timesteps and not report.should_stop():
    report.phase("rollout")
    trainer.evaluate()
    report.phase("update")
    trainer.train()
report.phase("saving")
logger.close(trainer.close())
# end
