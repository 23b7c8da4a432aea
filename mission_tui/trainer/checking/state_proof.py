"""``python -m mission_tui.trainer.checking.state_proof FOLDER``: restores in another process what `FOLDER` holds."""

from __future__ import annotations

import sys
from pathlib import Path

from mission_tui.trainer.state.env_proof import answer_elsewhere

__all__: list[str] = []

if __name__ == "__main__":
    answer_elsewhere(Path(sys.argv[1]))
