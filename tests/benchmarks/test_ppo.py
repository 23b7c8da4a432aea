"""What a sheet of PPO's speed says of the arithmetic under it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from benchmarks.ppo import batched
from benchmarks.ppo.matmul import KERNELS
from benchmarks.ppo.side import Side


class _Timed:
    rates = (200.0,)


@pytest.mark.parametrize(
    ("products_s", "said"),
    [
        (0.5, "50% of our round are matrix products; if all else cost nothing the ratio would be 2.00"),
        (0.0, KERNELS),
    ],
)
def test_a_round_without_products_of_torchs_has_no_floor(
    products_s: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small networks are computed by kernels of ours; ten minutes of measurements are not lost for it."""
    monkeypatch.setattr(batched, "arithmetic_s", lambda _side: (products_s, 1.0))
    side = cast(Side, cast(Any, _Timed()))
    assert batched.floor(side, side) == said
