"""Which process holds GPU memory, and how much: /proc says who has a device open, the GPU probe says the bytes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

__all__ = ["holds_gpu", "vram_of"]

_GPU_DEVICES = ("/dev/nvidia", "/dev/dxg")


def vram_of(pid: int, held: Mapping[int, int | None]) -> int | None:
    """Bytes of GPU memory that the process holds, None where nobody tells.

    In a container the driver may name processes by their numbers outside of it: one without the device is another.
    """
    try:
        maps = Path(f"/proc/{pid}/maps").read_text(errors="replace") if pid in held else ""
    except OSError:
        return None
    return held[pid] if any(device in maps for device in _GPU_DEVICES) else None


def holds_gpu(pid: int) -> bool:
    """Whether the process has a GPU open, whatever the probe says."""
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if str(entry.readlink()).startswith(_GPU_DEVICES):
                    return True
    return False
