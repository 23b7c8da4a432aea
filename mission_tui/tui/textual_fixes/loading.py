"""Loads Textual without what comes with it and this program does not have: a command palette, downloads, and TLS for
asyncio.

The palette, with the trees, lists, buttons and inputs that it is made of (Textualize/textual#3754), takes a twelfth of
the time to load Textual, OpenSSL another, and where downloads would go half as much: together that is an eighth of the
way to the first picture.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from types import ModuleType

_PALETTE = ("CommandListItem", "CommandPalette", "DiscoveryHit", "Hit", "Hits", "Provider", "SimpleProvider")
_STAND_INS = {"textual.command": _PALETTE, "platformdirs": ("user_downloads_path",), "mimetypes": ()}
"""What Textual 8.2.8 itself takes from each when it is loaded, to name types, to derive from, or to call later."""


def load_textual() -> None:
    """Import `textual.app`, for which empty modules stand in; they are taken away again."""
    if "textual" in sys.modules:
        return
    import mission_tui.ipc.local_asyncio  # noqa: F401 - before Textual loads it with OpenSSL

    stand_ins = {name: _stand_in(name, taken) for name, taken in _STAND_INS.items() if name not in sys.modules}
    sys.modules.update(stand_ins)
    # A Textual that takes more from them is imported whole, at the next import.
    with suppress(ImportError):
        import textual.app  # noqa: F401 - to be found loaded
    for name in stand_ins:
        del sys.modules[name]


def _stand_in(name: str, taken: tuple[str, ...]) -> ModuleType:
    module = ModuleType(name)
    for each in taken:
        setattr(module, each, type(each, (), {}))
    return module
