"""Which variables of an environment are secrets, and whose values may be written down.

A run is given all of them. What is on record are their names, and the values of those that are known to be harmless:
an unknown variable is taken for a secret, because nobody can tell a password from a word.
"""

from __future__ import annotations

import re

__all__ = ["is_harmless", "is_secret"]

_SECRET = re.compile(r"(^|_)(api_?key|keys?|tokens?|secrets?|passw(or)?d|passphrase|credentials?|auth)(_|$)", re.I)
_LOGIN = re.compile(r"://[^/@\s]*@")

# fmt: off
_HARMLESS = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM", "DISPLAY", "PWD",
    "VIRTUAL_ENV", "LD_LIBRARY_PATH", "NO_COLOR", "PYOPENGL_PLATFORM", "SDL_VIDEODRIVER", "SSH_AUTH_SOCK",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE",
    "MISSION_TUI_COMMAND", "MISSION_TUI_RUNS",
})
_HARMLESS_FAMILIES = (
    "LC_", "PYTHON", "CONDA_", "CUDA_", "NVIDIA_", "NCCL_", "CUBLAS_", "TORCH_", "TORCHINDUCTOR_", "TRITON_",
    "OMP_", "MKL_", "OPENBLAS_", "KMP_", "GOMP_", "MALLOC_", "WANDB_", "HF_", "XDG_", "MUJOCO_", "JAX_", "XLA_",
)
# fmt: on
_PLACE = re.compile(r"_(DIR|PATH|HOME|ROOT|FOLDER)$", re.I)
_SWITCH = re.compile(r"\d{0,3}(\.\d{1,3})?|true|false|on|off|yes|no", re.I)


def is_secret(name: str, value: str = "") -> bool:
    """Whether the variable's name says so (`WANDB_API_KEY`, `HF_TOKEN`), or its value is an address with a login."""
    return _SECRET.search(name) is not None or _LOGIN.search(value) is not None


def is_harmless(name: str, value: str) -> bool:
    """Whether `value` may be written down: a known name, a folder that is called one, a switch or a small number."""
    if is_secret(name, value):
        return False
    if name in _HARMLESS or name.startswith(_HARMLESS_FAMILIES):
        return True
    return (_PLACE.search(name) is not None and value.startswith("/")) or _SWITCH.fullmatch(value) is not None
