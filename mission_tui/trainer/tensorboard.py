"""TensorBoard events beside `metrics.jsonl`, under SB3's tags, where the `tensorboard` extra is installed.

The event file is a convenience: when its writer fails, that is said once and the training goes on without it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mission_tui.fleet.events.metrics import plain
from mission_tui.trainer.failures import complain

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class EventFile:
    """One event file of one attempt in the run directory; does nothing without the extra, or without a directory.

    A later attempt goes on behind `from_timesteps`: its file begins with the mark of a restart there, so that
    TensorBoard takes back the points beyond it, as readers of `metrics.jsonl` do, and shows attempts as one curve.
    """

    def __init__(
        self, run_dir: Path | None, attempt: int, from_timesteps: int = 0, failed: Callable[[str], None] = complain
    ) -> None:
        self._failed = failed
        self._writer: SummaryWriter | None = None
        if run_dir is not None and importlib.util.find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            try:
                # What TensorBoard keeps are points before the mark's step.
                mark = None if attempt == 1 else from_timesteps + 1
                suffix = f".attempt{attempt}"
                self._writer = SummaryWriter(str(run_dir), purge_step=mark, filename_suffix=suffix)
                # Made by a thread of TensorBoard's, with the umask of the launching shell.
                self._writer.flush()
                for path in run_dir.glob(f"events.out.tfevents.*{suffix}"):
                    path.chmod(0o600)
            except OSError as error:
                failed(f"there are no TensorBoard events: {error}")

    def write(self, metrics: Mapping[str, object], timesteps: int) -> None:
        """One point of every metric at `timesteps`."""
        if self._writer is None:
            return
        try:
            for tag, value in metrics.items():
                # A callback may log words; the record says that they are dropped.
                if (number := plain(value)) is not None:
                    self._writer.add_scalar(tag, number, timesteps)
        except (OSError, RuntimeError) as error:
            # Its thread hands an earlier write error to whoever writes next.
            self._failed(f"TensorBoard events end here: {error}")
            self._writer = None

    def close(self) -> None:
        """Flush and close."""
        if self._writer is not None:
            try:
                self._writer.close()
            except (OSError, RuntimeError) as error:
                self._failed(f"TensorBoard events may lack their end: {error}")
            self._writer = None
