"""Which variables of an environment are secrets, and whose values may be written down.

A run is given all of them. What is on record are their names, and the values of those that are known to be harmless:
an unknown variable is taken for a secret, because nobody can tell a password from a word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_SECRET = re.compile(
    r"token(?!i[sz])|secret|passw|passphrase|credential|bearer|cookie|jwt|authori[sz]ation|(access|api|private|signing)_?key"
    r"|(^|_)(keys?|auth|creds?|pass|pat|pwd?)\d*(_|$)",
    re.I,
)
_LOGIN = re.compile(r"://[^/@\s]*@|^[^:/@\s]+:[^/@\s]+@[^@\s]+$")
"""In an address, which a proxy's may be without `http://` before it."""
_ISSUED = re.compile(
    r"(?<![\w/-])((gh[opsu]|github_pat|hf|npm)_\w{16}|(sk|glpat|pypi|xox[abeprs])-[\w-]{10}|(AKIA|ASIA)[A-Z0-9]{16}"
    r"|eyJ[\w-]+\.[\w-])"
)
"""Tokens as GitHub, Hugging Face, npm, OpenAI, GitLab, PyPI, Slack and AWS issue them, and JSON web tokens."""

_VALUE = r"""(?:"(?P<double>[^"]+)"|'(?P<single>[^']+)'|(?P<plain>[^\s,;&'"\]=]++(?:=+(?!\w))?(?!=)))"""
_ASSIGNED = re.compile(rf"(?<![\w.-])(?P<name>[a-z-][\w.-]*)={_VALUE}", re.I)
_OPTION = re.compile(rf"(?<![\w.-])(?P<name>--?[a-z][\w.-]*),?\s+{_VALUE}", re.I)
"""In a command, or a list of its words: `--api-key VALUE`, `--password=VALUE`, `trainer.token=VALUE`."""
_BEARER = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{8,}", re.I)
_LOGIN_IN_TEXT, _WHOLE_TOKEN = re.compile(r"://[^/@\s]*@"), re.compile(_ISSUED.pattern + r"[\w.-]*")

# fmt: off
_HARMLESS = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM", "DISPLAY", "PWD",
    "VIRTUAL_ENV", "LD_LIBRARY_PATH", "NO_COLOR", "PYOPENGL_PLATFORM", "SDL_VIDEODRIVER", "SSH_AUTH_SOCK",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE",
    "MISSION_TUI_COMMAND", "MISSION_TUI_KERNELS", "MISSION_TUI_RUNS",
    "LC_ALL", "LC_ADDRESS", "LC_COLLATE", "LC_CTYPE", "LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_MESSAGES",
    "LC_MONETARY", "LC_NAME", "LC_NUMERIC", "LC_PAPER", "LC_TELEPHONE", "LC_TIME",
})
# Not LC_: sshd takes LC_* from every client, so people send in it what has no other way.
_HARMLESS_FAMILIES = (
    "PYTHON", "CONDA_", "CUDA_", "NVIDIA_", "NCCL_", "CUBLAS_", "TORCH_", "TORCHINDUCTOR_", "TRITON_",
    "OMP_", "MKL_", "OPENBLAS_", "KMP_", "GOMP_", "MALLOC_", "WANDB_", "HF_", "XDG_", "MUJOCO_", "JAX_", "XLA_",
)
# fmt: on
# fmt: off
_SESSION = frozenset({
    "LS_COLORS", "LSCOLORS", "CLICOLOR", "COLORTERM", "COLORFGBG", "GREP_COLORS", "GCC_COLORS", "LESS", "LESSOPEN",
    "LESSCLOSE", "PAGER", "MANPAGER", "EDITOR", "VISUAL", "BROWSER", "MAIL", "MAILCHECK", "HOST", "HOSTNAME",
    "HOSTTYPE", "MACHTYPE", "OSTYPE", "PS1", "PS2", "PS4", "PROMPT", "PROMPT_COMMAND", "RPROMPT", "HISTFILE",
    "HISTCONTROL", "HISTSIZE", "HISTFILESIZE", "SAVEHIST", "DBUS_SESSION_BUS_ADDRESS", "DESKTOP_SESSION",
    "SESSION_MANAGER",
    "GDMSESSION", "WAYLAND_DISPLAY", "XAUTHORITY", "XMODIFIERS", "IM_CONFIG_PHASE", "GJS_DEBUG_OUTPUT",
    "GJS_DEBUG_TOPICS", "MOTD_SHOWN", "DEBUGINFOD_URLS", "WSLENV", "WSL_DISTRO_NAME", "WSL_INTEROP", "WT_SESSION",
    "WT_PROFILE_ID", "MANAGERPID", "ZSH", "SHELL_SESSION_ID", "PROFILEHOME", "LOGIN_SHELL", "INSIDE_EMACS",
})
_SESSION_FAMILIES = (
    "SSH_", "TERM_", "ITERM_", "VTE_", "KITTY_", "KONSOLE_", "ALACRITTY_", "WEZTERM_", "GHOSTTY_", "TERMINATOR_",
    "TILIX_", "VSCODE_", "TMUX_", "ZELLIJ", "GNOME_", "KDE_", "GTK_", "QT_", "FZF_", "STARSHIP_", "P9K_", "BASH_FUNC_",
    "BYOBU_", "SUDO_", "_CE_", "LC_",
)
# fmt: on
_PLACE = re.compile(r"_(DIR|PATH|HOME|ROOT|FOLDER)$", re.I)
_OF_PLACE = re.compile(r"_?(dir|path|home|root|folder|file)$", re.I)
_NUMBER = re.compile(r"[\d._]+(e[+-]?\d+)?[kMG]?", re.I)
_SWITCH = re.compile(r"\d{0,3}(\.\d{1,3})?|true|false|on|off|yes|no", re.I)


def is_secret(name: str, value: str = "") -> bool:
    """Whether the variable's name says so (`WANDB_API_KEY`, `HF_TOKEN`), or its value is an address with a login, or
    looks like a token that some service issued.
    """
    by_name = name not in _HARMLESS and _SECRET.search(name) is not None
    return by_name or _LOGIN.search(value) is not None or _ISSUED.search(value) is not None


def masked(text: str) -> str:
    """`text` with stars for the logins of addresses in it, for tokens that some service issued, and for what stands
    behind the name of a secret (`--password`, `api_key=`).
    """
    plain = _WHOLE_TOKEN.sub("***", _BEARER.sub(r"\1 ***", _LOGIN_IN_TEXT.sub("://***@", text)))
    return _OPTION.sub(_masked_value, _ASSIGNED.sub(_masked_value, plain))


def masked_words(words: Sequence[str]) -> list[str]:
    """The words of a command, each as `masked` has it, also where the one before names a secret."""
    return [
        "***" if before.startswith("-") and "=" not in before and _hides(before, word) else masked(word)
        for before, word in zip(("", *words), words, strict=False)
    ]


def _masked_value(found: re.Match[str]) -> str:
    value = found[found.lastgroup or 0]
    return found.group().replace(value, "***") if _hides(found["name"], value) else found.group()


def _hides(name: str, value: str) -> bool:
    """Whether `value` behind the option or setting `name` may be a secret: no other option, switch, count or place."""
    said = name.lstrip("-").replace("-", "_").rpartition(".")[2]
    if _SECRET.search(said) is None or value.startswith("-") or _SWITCH.fullmatch(value):
        return False
    counts = said.endswith("s") and _NUMBER.fullmatch(value) is not None
    return not counts and not (_OF_PLACE.search(said) is not None and "/" in value)


def is_harmless(name: str, value: str) -> bool:
    """Whether `value` may be written down: a known name, a folder that is called one, a switch or a small number."""
    if is_secret(name, value):
        return False
    if name in _HARMLESS or name.startswith(_HARMLESS_FAMILIES):
        return True
    return (_PLACE.search(name) is not None and value.startswith("/")) or _SWITCH.fullmatch(value) is not None


def is_of_session(name: str) -> bool:
    """Whether the variable describes a terminal, a login or a desktop (`LS_COLORS`, `SSH_CONNECTION`): a run that is
    started again needs none of them, and by then they may be another's.
    """
    return name in _SESSION or name.startswith(_SESSION_FAMILIES)
