"""The recipes of docs/reporting.md: each line of them is in a script that runs here."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from mission_tui.fleet.events.metrics import CheckpointSaved, UpdateDone
from tests.report.conftest import REPOSITORY, Desk

HERE = Path(__file__).parent
DOCS = REPOSITORY / "docs"
JAX = REPOSITORY / ".venv-jax" / "bin" / "python"
pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("reporting.md", "cleanrl_style.py"),
        ("reporting.md", "plain_torch.py"),
        ("recipes/pufferlib.md", "pufferlib_style.py"),
        ("recipes/purejaxrl.md", "purejaxrl.py"),
    ],
)
def test_the_guide_shows_what_runs(page: str, name: str) -> None:
    """Every line of a recipe is a line of the script that is tested; dots and remarks stand for the rest."""
    guide = (DOCS / page).read_text(encoding="utf-8")
    shown = "\n".join(re.findall(rf"```python {re.escape(name)}\n(.*?)```", guide, re.DOTALL))
    script = {line.split("  #")[0].strip() for line in (HERE / name).read_text(encoding="utf-8").splitlines()}
    said = {line.split("  #")[0].strip() for line in shown.splitlines()} - {"", "...", "for _ in range(updates):"}
    assert any("report.should_stop()" in line for line in said)
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


@pytest.mark.slow
def test_a_pufferlib_style_loop(desk: Desk) -> None:
    """The logs that its trainer hands to a logger are rows by SB3's tags, with phases, progress and its last file."""
    desk.run("", str(HERE / "pufferlib_style.py"), "8")
    rows = desk.of(UpdateDone)
    assert [row.timesteps for row in rows] == [256 * number for number in range(1, 9)]
    wanted = {"train/approx_kl", "train/clip_fraction", "train/entropy_loss", "train/explained_variance"}
    assert wanted | {"train/value_loss", "rollout/ep_rew_mean", "rollout/ep_len_mean"} <= set(rows[-1].metrics)
    assert all(row.rollout_s > 0 and row.update_s > 0 for row in rows)
    assert desk.of(CheckpointSaved)[0].name == str(desk.folder / "policy.pt")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pufferlib") is None, reason="PufferLib is not installed: it is built from source")
def test_a_training_of_pufferlib(desk: Desk) -> None:
    """Its own trainer, with the same logger and loop."""
    desk.run("", str(HERE / "pufferlib_style.py"), "20", "pufferlib_cartpole")
    rows = desk.of(UpdateDone)
    assert rows[-1].timesteps == 20 * 256
    wanted = {"train/approx_kl", "train/clip_fraction", "train/entropy_loss", "train/explained_variance"}
    assert wanted | {"train/value_loss", "rollout/ep_rew_mean", "rollout/ep_len_mean"} <= set(rows[-1].metrics)
    assert desk.of(CheckpointSaved)[0].name == str(desk.folder / "experiments/mission-tui.pt")


def test_a_compiled_style_loop(desk: Desk) -> None:
    """Rows that a callback reports from another thread come in their order, whatever the main thread does."""
    desk.run("", str(HERE / "compiled_style.py"), "20")
    rows = desk.of(UpdateDone)
    assert [row.timesteps for row in rows] == sorted(row.timesteps for row in rows)
    assert rows[-1].timesteps == 20 * 64
    assert "train/value_loss" in rows[-1].metrics


@pytest.mark.slow
@pytest.mark.skipif(not JAX.is_file(), reason="JAX is not installed here: make jax")
def test_a_program_compiled_by_jax(desk: Desk) -> None:
    """PPO in pure JAX reports from inside of what is compiled, and learns; of ours nothing is installed there."""
    desk.environ["JAX_PLATFORMS"] = "cpu"
    desk.run("", str(HERE / "purejaxrl.py"), "40", python=str(JAX))
    rows = desk.of(UpdateDone)
    assert rows[-1].timesteps == 40 * 16 * 64
    assert {"train/approx_kl", "train/entropy_loss", "rollout/ep_rew_mean"} <= set(rows[-1].metrics)
    assert float(rows[-1].metrics["rollout/ep_rew_mean"]) > 100
