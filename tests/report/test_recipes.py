"""The recipes of docs/reporting.md: each line of them is in a script that runs here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mission_tui.fleet.events.metrics import CheckpointSaved, UpdateDone
from tests.report.conftest import REPOSITORY, Desk

HERE = Path(__file__).parent
GUIDE = (REPOSITORY / "docs" / "reporting.md").read_text(encoding="utf-8")
pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("name", ["cleanrl_style.py", "plain_torch.py"])
def test_the_guide_shows_what_runs(name: str) -> None:
    """Every line of a recipe is a line of the script that is tested; dots and remarks stand for the rest."""
    (shown,) = re.findall(rf"```python {re.escape(name)}\n(.*?)```", GUIDE, re.DOTALL)
    script = {line.strip() for line in (HERE / name).read_text(encoding="utf-8").splitlines()}
    said = {line.split("  #")[0].strip() for line in shown.splitlines()} - {"", "...", "for _ in range(updates):"}
    assert "if report.should_stop():" in said
    assert said <= script


@pytest.mark.slow
def test_a_cleanrl_style_loop(desk: Desk) -> None:
    """Each of its updates is a row by SB3's tags, with the episodes, and it learns as before."""
    desk.run("", str(HERE / "cleanrl_style.py"), "8")
    rows = desk.of(UpdateDone)
    assert [row.timesteps for row in rows] == [256 * number for number in range(1, 9)]
    wanted = {"train/approx_kl", "train/clip_fraction", "train/entropy_loss", "train/value_loss", "rollout/ep_rew_mean"}
    assert wanted <= set(rows[-1].metrics)
    assert sum(row.episodes.n for row in rows) > 20
    assert all(row.rollout_s > 0 and row.update_s > 0 for row in rows)
    assert float(rows[-1].metrics["rollout/ep_rew_mean"]) > float(rows[0].metrics["rollout/ep_rew_mean"])


@pytest.mark.slow
def test_a_plain_loop(desk: Desk) -> None:
    """A loop without rollouts reports what it has, tensors too, and names its checkpoint."""
    desk.run("", str(HERE / "plain_torch.py"), "60", "0.05")
    rows = desk.of(UpdateDone)
    assert [row.timesteps for row in rows] == [640 * number for number in range(1, 7)]
    assert float(rows[-1].metrics["train/loss"]) < float(rows[0].metrics["train/loss"])
    assert desk.of(CheckpointSaved)[0].name == str(desk.folder / "net.pt")
