"""Whether a branch can begin with anything: which layers of two networks have the same shape, as far as specs tell.

Only a certain no counts. The trainer, which has both networks, judges every branch again.
"""

from __future__ import annotations

from itertools import pairwise

from mission_tui.fleet.resume.rulings import AT_BIRTH, OPTIMIZER
from mission_tui.fleet.specs.algorithm import algorithm_name, learning_table, towers
from mission_tui.fleet.specs.spec import Spec

_SHAPELESS = AT_BIRTH | OPTIMIZER | {"activation_fn"}
"""Arguments of a policy that change the shape of no layer."""


def weights_may_fit(was: Spec, now: Spec) -> bool:
    """Whether some layer of `now` may begin as one of `was`; False only where certainly none has the same shape."""
    if algorithm_name(was) != algorithm_name(now) or not (_of_plain_layers(was) and _of_plain_layers(now)):
        return True
    return any(_share_a_layer(old, new) for old, new in zip(towers(was), towers(now), strict=True))


def _of_plain_layers(spec: Spec) -> bool:
    """Whether the widths say everything: nothing lies below the layers, and no class of a user builds them."""
    settings = learning_table(spec)[1]
    return settings.policy == "MlpPolicy" and settings.policy_kwargs.keys() <= _SHAPELESS


def _share_a_layer(was: tuple[int, ...], now: tuple[int, ...]) -> bool:
    """Whether two stacks of layers have one in common; what goes in at their bottom and out at their top may be equal.

    SB3 names layers by their place, so the top of a lower stack stands where a higher one has another layer.
    """
    lower = min(len(was), len(now))
    if lower == 0:
        return True
    at_an_end = was[0] == now[0] or was[-1] == now[-1] or was[lower - 1] == now[lower - 1]
    return at_an_end or any(old == new for old, new in zip(pairwise(was), pairwise(now), strict=False))
