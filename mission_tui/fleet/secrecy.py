"""Which variables of an environment are secrets: passed to a run, never written down and never shown."""

from __future__ import annotations

import re

__all__ = ["is_secret"]

_NAME = re.compile(r"(^|_)(api_?key|keys?|tokens?|secrets?|passw(or)?d|passphrase|credentials?|auth)(_|$)", re.I)
_LOGIN = re.compile(r"://[^/@\s]*@")


def is_secret(name: str, value: str = "") -> bool:
    """Whether the variable's name says so (`WANDB_API_KEY`, `HF_TOKEN`), or its value is an address with a login."""
    return _NAME.search(name) is not None or _LOGIN.search(value) is not None
