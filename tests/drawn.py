"""What a program wrote to a terminal: everything, however many reads it takes."""

from __future__ import annotations

import os

__all__ = ["drawn"]


def drawn(master: int) -> str:
    """All that was written to the other side, which must be closed; closes this side, too.

    The kernel hands a terminal's bytes over in pieces, later than they were written; it answers `EIO` after the last.
    """
    pieces = []
    try:
        while piece := os.read(master, 65536):
            pieces.append(piece)
    except OSError:
        pass
    finally:
        os.close(master)
    return b"".join(pieces).decode()
