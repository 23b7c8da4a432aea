"""What runs of a shape took of the machine at most, as was seen: worth more than arithmetic about them.

A shape is what memory depends on: environments, rollout, network and engine; rates, seeds and budgets do not matter.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from mission_tui.fleet.events.processes import Peak
from mission_tui.fleet.specs.spec import Spec

__all__ = ["Peaks", "shape_of"]

_RUNS = 5
"""Of each shape the last so many runs count: what changed in packages or driver is forgotten with them."""
_SHAPES = 1000


def shape_of(spec: Spec) -> bytes:
    """The same bytes for specs that take the same memory."""
    ppo, run = spec.ppo, spec.run
    parts = (
        spec.env,
        (ppo.policy, ppo.algo, ppo.n_steps, ppo.batch_size, ppo.net_arch, ppo.policy_kwargs, ppo.use_sde),
        (run.device, run.engine, run.precision, run.compile, run.threads, run.auto_scale, run.callbacks),
        (run.command, run.python),
    )
    return msgspec.json.encode(parts, order="deterministic")


class Peaks:
    """Peaks of ended attempts by shape, in memory: they are read again from the journals."""

    def __init__(self) -> None:
        self._seen: OrderedDict[bytes, dict[float, Peak]] = OrderedDict()

    def add(self, spec: Spec, peak: Peak, t: float) -> None:
        """Take in what an attempt that ended at unix time `t` took."""
        shape = shape_of(spec)
        known = self._seen.setdefault(shape, {})
        self._seen.move_to_end(shape)
        known[t] = peak
        for old in sorted(known)[:-_RUNS]:
            del known[old]
        if len(self._seen) > _SHAPES:
            self._seen.popitem(last=False)

    def of(self, spec: Spec) -> Peak | None:
        """The most that the last runs of its shape took; None when none is known."""
        known = self._seen.get(shape_of(spec))
        if not known:
            return None
        vram = [peak.vram_bytes for peak in known.values() if peak.vram_bytes is not None]
        return Peak(max(peak.rss_bytes for peak in known.values()), max(vram, default=None))
