"""Which settings can be changed under a training run, and how a change is told: what clients need of it. Pure."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["LIVE_KEYS", "SettingChange"]

LIVE_KEYS = (
    "ppo.learning_rate",
    "ppo.clip_range",
    "ppo.ent_coef",
    "ppo.vf_coef",
    "ppo.target_kl",
    "ppo.n_epochs",
    "ppo.max_grad_norm",
    "ppo.batch_size",
    "run.total_timesteps",
)


class SettingChange(Struct, frozen=True):
    """What was set while the run trained: `diff` has a line per setting.

    Updates after `update`, at `timesteps` of the curve, train with it; both are None while it waits for the boundary.
    """

    diff: tuple[str, ...]
    update: int | None = None
    timesteps: int | None = None

    @property
    def sentence(self) -> str:
        """What was set, and since when."""
        what = ", ".join(self.diff)
        return (
            f"to be set at the next update: {what}"
            if self.update is None
            else f"set after update {self.update:,}: {what}"
        )
