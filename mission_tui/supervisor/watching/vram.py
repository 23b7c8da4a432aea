"""Which process holds GPU memory, and how much: /proc says who has a device open, the GPU probe says the bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

__all__ = ["GpuHolders", "holds_gpu", "vram_of"]

_GPU_DEVICES = ("/dev/nvidia", "/dev/dxg")


def vram_of(pid: int, held: Mapping[int, int | None]) -> int | None:
    """Bytes of GPU memory that the process holds, None where nobody tells.

    In a container the driver may name processes by their numbers outside of it: one without the device is another.
    """
    return held[pid] if pid in held and _maps_gpu(pid) else None


class GpuHolders:
    """Which processes have a GPU open; asked of the kernel until one has, since their maps are long."""

    def __init__(self) -> None:
        self._known: set[tuple[int, int]] = set()

    def of(self, processes: Iterable[tuple[int, int]], told: Collection[int]) -> set[int]:
        """Those of `processes`, by pid and start, that the driver has `told` of and that are not others of its."""
        asked = [who for who in processes if who[0] in told]
        self._known = {who for who in asked if who in self._known or _maps_gpu(who[0])}
        return {pid for pid, _ in self._known}


def _maps_gpu(pid: int) -> bool:
    with suppress(OSError):
        maps = Path(f"/proc/{pid}/maps").read_text(errors="replace")
        return any(device in maps for device in _GPU_DEVICES)
    return False


def holds_gpu(pid: int) -> bool:
    """Whether the process has a GPU open, whatever the probe says."""
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if str(entry.readlink()).startswith(_GPU_DEVICES):
                    return True
    return False
