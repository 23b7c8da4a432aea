"""Virtual environments of others, made in seconds and without a network: real ones, with links to real packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

__all__ = ["make_venv", "pretend_version"]

OURS = ("mission_tui", "msgspec", "tomli_w", "safetensors", "textual", "click", "psutil")
"""What a person who trains with Stable-Baselines3 need not have."""


def make_venv(folder: Path, without: tuple[str, ...] = OURS) -> Path:
    """A venv in `folder` with the packages of this test's own interpreter but for `without`; returns its python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    # Those of another environment too, which this one may see (`make test SYSTEM=1`).
    for place in (Path(path) for path in sys.path if path.endswith("-packages")):
        for entry in place.iterdir() if place.is_dir() else ():
            name = entry.name.partition("-")[0].lower().replace("-", "_")
            editable = "editable" in name or entry.suffix == ".pth"
            link = packages / entry.name
            if not editable and name not in (*without, "__pycache__") and not link.is_symlink():
                link.symlink_to(entry)
    return folder / "bin" / "python"


def pretend_version(folder: Path, distribution: str, version: str) -> None:
    """Have the venv in `folder` say that its `distribution` is `version`."""
    (packages,) = folder.glob("lib/python3*/site-packages")
    (known,) = packages.glob(f"{distribution}-*.dist-info")
    known.unlink()
    fresh = packages / f"{distribution}-{version}.dist-info"
    fresh.mkdir()
    (fresh / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n", "utf-8")
