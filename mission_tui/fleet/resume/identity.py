"""Rulings on what makes a run the run it is: its task, the shapes of its network, and what its network is fed."""

from __future__ import annotations

from mission_tui.fleet.resume.remedies import BRANCH, RESET_ADAM
from mission_tui.fleet.resume.sides import Ruling, Sides
from mission_tui.fleet.specs.spec import EnvSpec, Normalize

__all__ = ["NEW_RUN", "collapsed", "normalize", "normalizer", "policy_kwargs"]

NEW_RUN = "branch: a new run with these weights"
OPTIMIZER = frozenset({"optimizer_class", "optimizer_kwargs"})
AT_BIRTH = frozenset({"log_std_init", "ortho_init"})


def normalizer(env: EnvSpec) -> Normalize | None:
    """The normaliser that `env` asks for: True means the default one, False none."""
    if isinstance(env.normalize, Normalize):
        return env.normalize
    return Normalize() if env.normalize else None


def normalize(sides: Sides) -> Ruling:
    """Statistics that appear or vanish change every input of the network."""
    was, now = normalizer(sides.was.env), normalizer(sides.now.env)
    if was is None or now is None:
        what = "added" if was is None else "missing"
        why = f"the normalizer is {what}: the network would see inputs it was never trained on"
        return Ruling("refuse", why, "leave env.normalize as it was", override=True)
    if (was.obs, was.reward) != (now.obs, now.reward):
        return Ruling(
            "refuse",
            "inputs or value targets change scale at once",
            f"restore obs = {str(was.obs).lower()}, reward = {str(was.reward).lower()}",
            override=True,
        )
    return Ruling("warn", "normalized values beyond the old limits are clipped elsewhere now")


def policy_kwargs(sides: Sides) -> Ruling:
    """Arguments that shape the network refuse; those of the optimizer warn; those used only at birth do nothing."""
    was, now = sides.was.ppo.policy_kwargs, sides.now.ppo.policy_kwargs
    changed = {name for name in {*was, *now} if was.get(name) != now.get(name) or (name in was) != (name in now)}
    if changed <= AT_BIRTH:
        return Ruling("note", "used only when a network is made, so it changes nothing here")
    if changed <= AT_BIRTH | OPTIMIZER:
        why = "Adam's moments mean nothing to another optimizer: its first 1,000 gradient steps start from wrong ones"
        return Ruling("warn", why, f"--set {sides.target_kl}", (RESET_ADAM,))
    why = "the network's shape or function changes, so its weights do not fit"
    return Ruling("refuse", why, NEW_RUN, (BRANCH,))


def collapsed(sides: Sides) -> Ruling:
    """A policy that was frozen or collapsed where the checkpoint was taken: no log seen ever recovered from it."""
    why = f"at this checkpoint the policy had stopped learning ({sides.facts.collapsed}); no run seen came back from it"
    return Ruling("refuse", why, "resume from an earlier checkpoint: --checkpoint NAME", override=True)
