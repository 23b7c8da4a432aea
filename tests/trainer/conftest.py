"""What the tests of the trainer share in each process."""

from __future__ import annotations

import pytest

from mission_tui.trainer.torch_compiler import use_plain_optimizers


@pytest.fixture(scope="session", autouse=True)
def plain_optimizers() -> None:
    """As in every training: otherwise the first optimizer of each process loads torch's compiler, for three seconds."""
    use_plain_optimizers()
