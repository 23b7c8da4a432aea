"""Loads Textual without what comes with it and this program does not have: a command palette, and TLS for asyncio.

The palette, with the trees, lists, buttons and inputs that it is made of, takes a twelfth of the time to load Textual,
and OpenSSL another: together that is a tenth of the way to the first picture.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from types import ModuleType

__all__ = ["load_textual"]

_PALETTE = "textual.command"
_TAKEN = ("CommandListItem", "CommandPalette", "DiscoveryHit", "Hit", "Hits", "Provider", "SimpleProvider")
"""What Textual 8.2.8 itself takes from there when it is loaded, to name types and to derive from."""


def load_textual() -> None:
    """Import `textual.app`, for which empty classes stand in for the palette's; nobody else gets to see them."""
    if "textual" in sys.modules:
        return
    _load_asyncio()
    stand_in = ModuleType(_PALETTE)
    for name in _TAKEN:
        setattr(stand_in, name, type(name, (), {}))
    sys.modules[_PALETTE] = stand_in
    # A Textual that takes more is imported as it is, by whoever needs it next.
    with suppress(ImportError):
        import textual.app  # noqa: F401 - to be found loaded
    del sys.modules[_PALETTE]


def _load_asyncio() -> None:
    """As in a Python that was built without OpenSSL, which asyncio allows for: the screen speaks to local sockets."""
    if "ssl" in sys.modules:
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]  # importing it fails
    try:
        import asyncio  # noqa: F401 - to be found loaded
    finally:
        del sys.modules["ssl"]
