"""What a training and its environments print: kept while there is room for it, and never what a training ends of.

Its output is a file of the run directory, so on a full disk every `print` of anybody would be an error.
"""

from __future__ import annotations

import errno
import io
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["outlive_full_disk"]

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


class _Output(io.FileIO):
    """Takes what there is no room for, and drops it."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Bytes that need no further try."""
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            return memoryview(data).nbytes


def outlive_full_disk() -> None:
    """From now on words to stdout and stderr are written at once, or dropped where the disk is full."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            raw = _Output(stream.fileno(), "wb", closefd=False)
            text = io.TextIOWrapper(raw, stream.encoding, stream.errors, write_through=True)
            setattr(sys, name, text)
