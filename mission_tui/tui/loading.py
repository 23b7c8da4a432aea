"""Loads Textual without the command palette that comes with it and that this program does not have.

With what it is made of, which is trees, lists, buttons and inputs, it takes a twelfth of the time to load Textual: that
is a twentieth of the way to the first picture.
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
    stand_in = ModuleType(_PALETTE)
    for name in _TAKEN:
        setattr(stand_in, name, type(name, (), {}))
    sys.modules[_PALETTE] = stand_in
    # A Textual that takes more is imported as it is, by whoever needs it next.
    with suppress(ImportError):
        import textual.app  # noqa: F401 - to be found loaded
    del sys.modules[_PALETTE]
