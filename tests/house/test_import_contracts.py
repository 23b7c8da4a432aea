"""The rooms import only what their row of ARCHITECTURE.md allows: import-linter holds the static graph."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def lint(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run import-linter as `make lint` does."""
    return subprocess.run([sys.executable, "-c", LINT, "--no-cache", *words], cwd=cwd, capture_output=True, text=True)


def test_every_contract_is_kept() -> None:
    """No room reaches into one that its row does not name."""
    done = lint()
    assert done.returncode == 0, done.stdout


def test_every_room_has_a_contract() -> None:
    """A new room cannot arrive without a contract of its own."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    held = {module.split(".")[1] for contract in config["contracts"] for module in contract.get("source_modules", [])}
    rooms = {folder.name for folder in (ROOT / "mission_tui").iterdir() if (folder / "__init__.py").exists()}
    assert rooms <= held
    assert len(rooms) >= 8


def test_a_broken_contract_is_noticed(tmp_path: Path) -> None:
    """The linter fails when a room of the real package imports what its contract forbids."""
    config = tmp_path / "contracts.toml"
    config.write_text(
        """
[tool.importlinter]
root_package = "mission_tui"

[[tool.importlinter.contracts]]
name = "ipc without fleet"
type = "forbidden"
source_modules = ["mission_tui.ipc"]
forbidden_modules = ["mission_tui.fleet"]
"""
    )
    done = lint("--config", str(config))
    assert done.returncode != 0
    assert "ipc without fleet BROKEN" in done.stdout
