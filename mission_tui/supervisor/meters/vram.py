"""Which process holds GPU memory, and how much: /proc says who has a device open, the GPU probe says the bytes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mission_tui.supervisor.meters.process_files import read_stat

__all__ = ["GpuHolders", "holds_gpu", "vram_of"]

_GPU_DEVICES = ("/dev/nvidia", "/dev/dxg")
_YES, _ASK_AGAIN, _REMEMBERED = -1, 15, 4096
"""Who had no GPU open is asked anew after so many questions."""


def vram_of(pid: int, held: Mapping[int, int | None]) -> int | None:
    """Bytes of GPU memory that the process holds, None where nobody tells.

    In a container the driver may name processes by their numbers outside of it: one without the device is another.
    """
    return held[pid] if pid in held and _maps_gpu(pid) else None


class GpuHolders:
    """Which processes have a GPU open; the kernel is asked rarely, since their maps are long.

    One that has it open keeps it. One that has not, though the driver names its number, is most likely another's.
    """

    def __init__(self) -> None:
        self._told: dict[tuple[int, int], int] = {}
        """By pid and start how many more times "no" is believed; -1 is "yes"."""

    def hold(self, pid: int, started: int) -> bool:
        """Whether the process `pid` that began at `started` (ticks) has one open; ask only of whom the driver names."""
        who = pid, started
        times = self._told.get(who, 0)
        if times == 0:
            if len(self._told) >= _REMEMBERED:
                self._told.clear()
            times = self._told[who] = _YES if _maps_gpu(pid) else _ASK_AGAIN
        elif times > 0:
            self._told[who] = times - 1
        return times == _YES

    def bytes_of(self, pid: int, held: Mapping[int, int | None]) -> int | None:
        """As `vram_of`, of a process that is asked about again and again."""
        stat = read_stat(pid) if pid in held else None
        return held[pid] if stat is not None and self.hold(pid, stat.started) else None


def _maps_gpu(pid: int) -> bool:
    with suppress(OSError):
        maps = Path(f"/proc/{pid}/maps").read_bytes()
        return any(device.encode() in maps for device in _GPU_DEVICES)
    return False


def holds_gpu(pid: int) -> bool:
    """Whether the process has a GPU open, whatever the probe says."""
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if str(entry.readlink()).startswith(_GPU_DEVICES):
                    return True
    return False
