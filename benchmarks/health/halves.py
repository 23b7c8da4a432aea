"""Which tasks rules may be tuned on, and which only score them: one table, fixed before any scoring trace was recorded.

A run is scored only if its task was never looked at while a rule was changed; constructions that rules were changed
because of, on other tasks, are known ones. Whoever changes a rule because of a scoring run moves its task to the tuning
half and records something new in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

__all__ = ["CONSTRUCTIONS", "FRESH", "MOVED", "SEEDS", "STATED", "TASKS", "THREE_LABELS", "Half", "half_of", "is_known"]

Half = Literal["tuning", "scoring"]

TASKS: Mapping[str, tuple[Half, str]] = {
    "cartpole": ("tuning", "known since the first rules"),
    "acrobot": ("tuning", "known since the first rules"),
    "pendulum": ("tuning", "known since the first rules"),
    "mountaincar": ("tuning", "known since the first rules"),
    "mission": ("tuning", "known since the first rules"),
    "sealed-mission": ("tuning", "known since the first rules"),
    "pointing": ("tuning", "a false critical was reported of a task like it: solved to its ceiling in five updates"),
    "pendulum-sde": ("tuning", "false warnings were reported of clip range 0.4 and gSDE"),
    "noisy-cartpole": ("scoring", "noise three times as large as the rewards"),
    "frozen-lake": ("tuning", "returns of 0 or 1; moved here once its findings had been looked at"),
    "slippery": ("tuning", "a floor that gives way; moved here once false warnings of it had led to a change"),
    "taxi": ("scoring", "500 states, a slow start, returns far below zero"),
    "blackjack": ("scoring", "nearly all noise, and little to be learned"),
    "bandit": ("scoring", "episodes of one step"),
    "corridor": ("scoring", "no reward before the first success"),
    "tracking": ("scoring", "continuous actions, with normalised observations and rewards"),
    "locks": ("scoring", "several discrete heads, solved to a ceiling"),
    "catch": ("scoring", "one reward at the end of an episode, solved to a ceiling"),
    "docking": ("scoring", "two continuous actions, nothing normalised, episodes that end early once it is learned"),
    "inventory": (
        "tuning",
        "large noisy rewards, learned slowly; moved here once false warnings of it had led to a change",
    ),
    "pricing": ("tuning", "large noisy rewards, of which the tuning half had none"),
    "heating": ("tuning", "two continuous actions, normalised, in weather that nobody foresees"),
    "sailing": ("tuning", "32 environments whose long episodes all end at once, one continuous action"),
    "signalling": ("tuning", "24 environments whose long episodes all end at once, three discrete heads"),
    "dialling": ("tuning", "no reward before the first success, which takes seven right choices in a row"),
    "ferrying": ("tuning", "one reward at the end of an episode, seldom met at first"),
    "smelting": ("tuning", "raw costs of ten thousands, SB3's rate and epochs"),
    "smelting-long": ("tuning", "raw costs of ten thousands, and 16 environments whose long episodes all end at once"),
    "shipping": ("tuning", "raw rewards of ten thousands and of either sign, SB3's rate and epochs"),
    "balancing": ("tuning", "one environment, of which an update ends one episode or two"),
    "herding": ("tuning", "64 environments, eight steps of each an update, whose episodes end apart"),
    "listening": ("tuning", "a speed that is never seen, four observations stacked"),
    "steering": ("tuning", "two continuous actions, costs alone, everything normalised"),
    "searching": ("tuning", "one reward at the end, and none before"),
    "climbing": ("tuning", "healthy rewards that grow a thousand times by what is learned, nothing normalised"),
    "ploughing": (
        "tuning",
        "three continuous actions, long episodes, nothing normalised, returns rise on",
    ),
    "stoking": ("tuning", "small rewards at each step, long episodes, nothing normalised"),
    "kneading": ("tuning", "two arms, costs alone, everything normalised"),
    "melding": ("tuning", "cards: a move that is not allowed costs, most are not"),
    "angling": ("tuning", "a small reward by chance that is near, and a large one far away: most policies settle"),
    "diving": ("tuning", "one continuous action that costs, and a reward that is hardly ever met: policies lie still"),
    "noisy-pointing": ("tuning", "noise three times as large as the rewards, solved to a ceiling"),
    "harbour-mission": ("scoring", "outcomes: MissionGym, of which rules were tuned, in another world"),
    "queue": ("tuning", "large noisy costs; moved here once false warnings of it had led to a change"),
    "reaching": ("scoring", "three continuous actions, normalised"),
    "noisy-acrobot": ("scoring", "noise three times as large as the rewards, and a slow start"),
    "cartpole-clean": ("tuning", "the settings of CleanRL, with an annealed rate"),
    "cartpole-zoo": ("tuning", "the settings of the RL zoo: rate and clip range decay, 20 epochs"),
    "cliff": ("tuning", "a cliff that costs a hundred steps, normalised rewards, solved to a ceiling"),
    "dosing": ("tuning", "episodes of one step, continuous and noisy"),
    "lending": ("tuning", "large noisy rewards of either sign"),
    "noisy-pendulum": ("tuning", "noise as large as the rewards, normalised"),
    "auction": ("scoring", "episodes of one step, noisy"),
    "machine": ("scoring", "large noisy rewards, rare losses ten times as large"),
    "keys": ("scoring", "no reward before the first success, solved to a ceiling"),
    "chasing": ("scoring", "two continuous actions, normalised, noisy rewards"),
    "acrobot-clean": ("scoring", "the settings of CleanRL, with an annealed rate"),
    "floors": ("scoring", "plateaus between what is known and what is not, solved to a ceiling"),
    "prospecting": ("tuning", "rare rewards a hundred times as large as the others; moved here once its list was read"),
    "crane": ("tuning", "one continuous action within bounds, nothing normalised; moved here once its list was read"),
    "archery": ("tuning", "ever more difficult, in a wind that turns; moved here once its list was read"),
    "catalogue": ("scoring", "64 actions, rewards of 0 or 1 by chance"),
    "hopper": ("tuning", "Gymnasium's: a gait that is found, and lost again"),
    "reacher": ("tuning", "Gymnasium's: two continuous actions, episodes of one length"),
    "lunar-continuous": ("tuning", "Gymnasium's: nothing normalised, a long horizon"),
    "lunar-lander": (
        "tuning",
        "Gymnasium's: nothing normalised, a long horizon, large rewards at the end; moved here once its list was read",
    ),
    "half-cheetah": (
        "tuning",
        "Gymnasium's: six continuous actions, no episode ends early; moved here once its list was read",
    ),
    "inverted-pendulum": (
        "tuning",
        "Gymnasium's: solved to its ceiling within a third of the budget; moved here once its list was read",
    ),
    "double-pendulum": (
        "tuning",
        "Gymnasium's: a slow start, then episodes that hardly end; moved here once its list was read",
    ),
    "pusher": (
        "tuning",
        "Gymnasium's: seven continuous actions, costs that come down slowly; moved here once its list was read",
    ),
    "hill": (
        "tuning",
        "Gymnasium's MountainCarContinuous: gSDE, solved to its ceiling at once; moved here once its list was read",
    ),
    "walker": ("scoring", "Gymnasium's: six continuous actions, a gait that is found"),
    "swimmer": ("scoring", "Gymnasium's: episodes of one length, a horizon as long as they are"),
    "bipedal": ("scoring", "Gymnasium's: a fall that costs a hundred, then a walk that pays three hundred"),
    "cartpole-single": ("scoring", "SB3's defaults on one environment, solved to its ceiling"),
    "lander-single": ("scoring", "SB3's defaults on one environment, a long horizon"),
    "pixels": ("scoring", "images, through SB3's CnnPolicy"),
    "large-lake": (
        "tuning",
        "Gymnasium's FrozenLake 8 x 8, one reward seldom met at first; moved here once it had led to a change",
    ),
    "scheduling": ("scoring", "three discrete heads, everything normalised, costs that chance moves"),
    "sightless": ("scoring", "CartPole without its speeds, four observations stacked"),
    "assembly": ("scoring", "all that is paid comes at the end of an episode"),
    "hovering": ("scoring", "two continuous actions, normalised observations of very different sizes"),
    "grazing": ("scoring", "episodes of 600 steps, a dozen updates long"),
    "mining": ("scoring", "returns of thousands, nothing normalised"),
    "spelling": (
        "tuning",
        "learned slowly, at a small rate; moved here once false criticals of it had led to a change",
    ),
    "foraging": ("scoring", "little of the world is seen"),
    "grading": ("scoring", "learned slowly, at a rate of 0.00003, to the end of the budget"),
    "delivering": ("scoring", "one reward, seldom met at first"),
    "rolling": ("scoring", "two continuous actions, everything normalised"),
    "dispatching": ("scoring", "costs of thousands, nothing normalised"),
    "switching": ("scoring", "solved to its ceiling within a tenth of the budget"),
    "echoing": ("scoring", "two discrete heads, and what counts is no longer shown"),
    "parking": (
        "tuning",
        "gSDE, with noise that is held for eight steps; moved here once false warnings of it had led to a change",
    ),
    "mowing": ("scoring", "a small grid of three layers, a clip range of 0.1 and an annealed rate"),
    "packing": ("scoring", "observations through a dictionary"),
    "watering": ("scoring", "six valves open or shut, 32 environments whose long episodes all end at once"),
    "filing": ("scoring", "masked actions, all that is paid comes at the end of an episode"),
    "cooling": ("scoring", "SB3's rate and epochs, returns below minus ten thousand, nothing normalised"),
    "acrobot-zoo": ("scoring", "the settings of the RL zoo, updates of 4,096 steps"),
    "homing": ("scoring", "neither place nor goal is seen, three observations stacked"),
    "escaping": ("scoring", "episodes of 300 steps with one reward, seldom met at first"),
    "rowing": ("scoring", "eight continuous actions at a long horizon; returns may fall for long before they rise"),
    "skiing": ("scoring", "an episode ends at its first failure, and gets harder the longer it lasts"),
    "elevating": ("scoring", "128 environments, eight steps of each an update"),
    "throwing": (
        "tuning",
        "a curriculum: what is asked grows with what is hit; moved here once false warnings of it had led to a change",
    ),
    "reacher-zoo": ("scoring", "the settings of the RL zoo on one environment, minibatches of 32, learned slowly"),
    "lifting": ("scoring", "two arms and a thing to leave alone, everything normalised"),
    "tolling": ("scoring", "8 environments, updates of 512 steps each, episodes of 500"),
    "welding": (
        "scoring",
        "two continuous actions of very different sizes, 64 environments, 16 steps an update",
    ),
    "milling": ("scoring", "discrete heads of different sizes, some choices do nothing"),
    "shedding": ("scoring", "cards: a move that is not allowed costs, most are not"),
    "keeping": ("scoring", "a third of what is seen is missing, four observations stacked, paid at the end"),
    "inverted-zoo": (
        "tuning",
        "the settings of the RL zoo, updates of 32 steps; moved here once a false warning of it had led to a change",
    ),
}
"""Half and reason by the name of the task."""

MOVED = (
    "frozen-lake",
    "slippery",
    "inventory",
    "queue",
    "prospecting",
    "crane",
    "archery",
    "lunar-lander",
    "half-cheetah",
    "inverted-pendulum",
    "double-pendulum",
    "pusher",
    "hill",
    "large-lake",
    "spelling",
    "parking",
    "throwing",
    "inverted-zoo",
)
"""Tasks that scored once, with the seeds of scoring."""

THREE_LABELS = (
    "sailing",
    "signalling",
    "dialling",
    "ferrying",
    "smelting",
    "smelting-long",
    "shipping",
    "balancing",
    "herding",
    "listening",
    "steering",
    "searching",
    "climbing",
    "ploughing",
    "stoking",
    "kneading",
    "melding",
    "angling",
    "diving",
    "large-lake",
    "scheduling",
    "sightless",
    "assembly",
    "hovering",
    "grazing",
    "mining",
    "spelling",
    "foraging",
    "grading",
    "delivering",
    "rolling",
    "dispatching",
    "switching",
    "echoing",
    "parking",
    "mowing",
    "packing",
    "watering",
    "filing",
    "cooling",
    "acrobot-zoo",
    "homing",
    "escaping",
    "rowing",
    "skiing",
    "elevating",
    "throwing",
    "reacher-zoo",
    "lifting",
    "tolling",
    "welding",
    "milling",
    "shedding",
    "keeping",
    "inverted-zoo",
)
"""Tasks whose runs are sick, healthy or unclear, as was fixed on 28 November 2026 before any of them was recorded.

A run is *sick* if one of the construction's tests of harm finds some, or if what is paid no longer tells the task and
the return that it receives lies behind the twin's for thirty updates (`paid_less`). It is *healthy* if nothing was done
to it, or something that people do and that is known to be benign. It is *unclear* if something harmful was done and no
harm is seen: then it counts for nothing from there on, and is listed on the page with what was said of it.
"""

FRESH = (
    "lifting",
    "tolling",
    "welding",
    "milling",
    "shedding",
    "keeping",
)
"""Scoring tasks whose runs were recorded when the lists of false and missed runs of all others had been read, and were
judged once, after the last change of a rule that any of them could have led to.
"""

CONSTRUCTIONS: Mapping[str, tuple[Half, str]] = {
    "lr-300": ("tuning", "known since the first rules"),
    "epochs-40": ("tuning", "known since the first rules"),
    "batch-8": ("tuning", "known since the first rules"),
    "frozen": ("tuning", "known since the first rules"),
    "stale-optimizer": ("tuning", "known since the first rules"),
    "ent-zero": ("tuning", "known since the first rules"),
    "reward-flip": ("tuning", "known since the first rules"),
    "drawdown": ("tuning", "known since the first rules"),
    "oscillator-one-way": ("tuning", "known since the first rules"),
    "oscillator-two-way": ("tuning", "known since the first rules"),
    "hacked": ("tuning", "known since the first rules"),
    "stall-no-way-forward": ("tuning", "known since the first rules"),
    "reward-100": ("tuning", "known since the first rules"),
    "obs-jump": ("tuning", "known since the first rules"),
    "nan-reward": ("tuning", "known since the first rules"),
    "worker-slow": ("tuning", "known since the first rules"),
    "worker-hang": ("tuning", "known since the first rules"),
    "clip-0.1": ("tuning", "healthy; known since the first rules"),
    "clip-0.4": ("tuning", "healthy; known since the first rules"),
    "target-kl": ("tuning", "healthy; known since the first rules"),
    "linear-lr": ("tuning", "healthy; known since the first rules"),
    "linear-clip": ("tuning", "healthy; false criticals were reported of a clip range that decays"),
    "lr-gone": ("tuning", "a rate of 0 at once was missed in foreign logs"),
    "no-value": ("tuning", "a value loss without weight was reported as found late"),
    "obs-30": ("tuning", "observations times 30"),
    "reward-sign": ("tuning", "rewards change their sign"),
    "reward-gone": ("scoring", "rewards are 0"),
    "gamma-0": ("tuning", "no horizon at all"),
    "vf-0": ("tuning", "the value loss has no weight"),
    "liars": ("scoring", "half of the workers pay the opposite"),
    "lr-0": ("tuning", "the learning rate is 0 at once"),
    "minibatch-4": ("scoring", "minibatches of four transitions"),
    "ent-1": ("tuning", "an entropy bonus that outweighs the reward"),
    "mismatch": ("scoring", "the update sees other observations than the rollout did"),
    "other-env": ("scoring", "resumed in an environment that wants other actions"),
    "unsaved": ("scoring", "checkpoints cannot be written"),
    "creep": ("scoring", "a learning rate that grows by 4 % an update"),
    "stuck": ("tuning", "nothing more to be had for 200 updates, far from the goal"),
    "annealed": ("tuning", "healthy; rate and clip range both decay to 0"),
    "wide-clip": ("scoring", "healthy; clip range 0.4"),
    "stock": ("tuning", "healthy; SB3's defaults, 50 updates"),
    "sde": ("tuning", "healthy; gSDE"),
    "no-critic": ("scoring", "the optimizer loses the value function, and steps the policy alone"),
    "half-blind": ("tuning", "every other value of an observation is 0"),
    "swapped": ("scoring", "the environment takes each action for another"),
    "lr-100": ("tuning", "a learning rate 100 times as large"),
    "reward-clipped": ("tuning", "rewards are cut to their sign"),
    "late-actions": ("tuning", "the environment takes each action three steps after it was chosen"),
    "ent-first": ("tuning", "an entropy bonus of 1 from the first update on"),
    "norm-lost": ("scoring", "the normaliser of observations starts anew and stands still"),
    "reward-drowned": ("scoring", "rewards get noise ten times as large as they are"),
    "reversed": ("tuning", "the environment takes each continuous action with the opposite sign"),
    "stuck-sensor": ("scoring", "an observation stays what it once was"),
    "noisy-sensor": ("scoring", "observations get noise of 1"),
    "new-head": ("tuning", "the layer that gives the actions starts anew"),
    "grad-0": ("scoring", "gradients are cut to next to nothing"),
    "minibatch-8": ("scoring", "minibatches of eight transitions"),
    "clip-10": ("scoring", "a clip range of 10, with more and larger steps"),
    "resumed": ("scoring", "healthy; stopped midway, and goes on as it was"),
    "epochs-20": ("scoring", "healthy; 20 epochs at a rate of 0.0003"),
    "clip-vf": ("scoring", "healthy; the value function's steps are clipped too"),
    "ent-0.01": ("scoring", "healthy; an entropy bonus of 0.01"),
    "whole-batch": ("scoring", "healthy; one minibatch that is the whole rollout"),
    "gae-0.8": ("scoring", "healthy; advantages that look less far ahead"),
    "raw-advantage": ("scoring", "healthy; advantages are not normalised"),
    "small-net": ("scoring", "healthy; one layer of 32"),
    "large-net": ("scoring", "healthy; two layers of 256"),
    "relu": ("scoring", "healthy; ReLU in the place of tanh"),
    "vf-1": ("scoring", "healthy; a value loss with twice the weight"),
    "gamma-0.95": ("scoring", "healthy; a nearer horizon, where 0.99 was set"),
    "lr-third": ("scoring", "healthy; a learning rate of 0.0003, where 0.001 was set"),
    "warm-up": ("scoring", "healthy; the learning rate grows over the first twenty updates"),
}
"""Half and reason by the name of the construction; `healthy` takes the half of its task."""

STATED: Mapping[str, tuple[str, ...]] = {
    "lr-0": ("policy-frozen",),
    "lr-gone": ("policy-frozen",),
    "vf-0": ("explained-variance",),
    "no-value": ("explained-variance",),
    "no-critic": ("explained-variance",),
    "gamma-0": ("explained-variance",),
}
"""Rules whose finding only restates what was done, by construction: from its onset on the learning rate is exactly 0,
nothing teaches the value function, or it looks no step ahead. Where the test of harm finds none, such a finding is
still no error.

Fixed before it was counted. Not in it is whatever has to be measured: that a return fell, or that actions are wide.
"""

SEEDS: Mapping[Half, tuple[int, ...]] = {"tuning": (101, 102, 103, 1, 2, 3, 4, 5), "scoring": (11, 12, 13)}


def half_of(task: str) -> Half:
    """The half of a run is that of its task."""
    return TASKS[task][0]


def is_known(construction: str) -> bool:
    """Whether rules were tuned on what was done, on other tasks."""
    return construction != "healthy" and CONSTRUCTIONS[construction][0] == "tuning"
