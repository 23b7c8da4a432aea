"""Loads asyncio without OpenSSL, as in a Python that was built without it: our processes speak to local sockets alone.

OpenSSL is a twelfth of what a supervisor's start takes. It can be imported afterwards by whoever needs it.
"""

from __future__ import annotations

import sys

__all__ = ["asyncio"]

if "asyncio" in sys.modules or "ssl" in sys.modules:
    import asyncio
else:
    sys.modules["ssl"] = None  # type: ignore[assignment]  # importing it fails
    try:
        import asyncio
    finally:
        del sys.modules["ssl"]
