"""The zoo's `config.yml` and `args.yml` as the tables of a preset: its words are read, none is evaluated. Their YAML is
read as text: block lists and tables, short flow ones, and scalars.

A tag such as `!!python/object/apply:...` is passed over unread, so nothing in a file is ever looked up or made.
Anchors, aliases and block scalars, which the zoo does not write, are refused.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from mission_tui.errors import PresetError, UsageError
from mission_tui.fleet.specs.sb3_algorithms import OTHERS
from mission_tui.fleet.specs.spec import LARGEST_SEED

Tables = dict[str, dict[str, Any]]
_PPO = frozenset(("policy", "gamma", "gae_lambda", "normalize_advantage", "ent_coef", "vf_coef", "max_grad_norm"))
_PPO |= {"use_sde", "target_kl", "n_steps", "batch_size", "n_epochs", "sde_sample_freq", "stats_window_size"}
_SCHEDULES = frozenset(("learning_rate", "clip_range", "clip_range_vf"))
_COUNTS = frozenset(("n_steps", "batch_size", "n_epochs", "sde_sample_freq", "stats_window_size"))
_LINEAR = re.compile(r"lin_([-+0-9.eE]+)")
_ALGORITHMS = {"ppo": "ppo", "ppo_lstm": "recurrent_ppo"}
_SILENT = frozenset(["verbose", "tensorboard_log", "device", "seed"])
NORMALIZE = {"norm_obs": "obs", "norm_reward": "reward", "clip_obs": "clip_obs", "clip_reward": "clip_reward"}
_ATARI = "stable_baselines3.common.atari_wrappers.AtariWrapper"
_OUR_ATARI = "mission_tui.envs.atari:AtariWrapper"
"""The same without torch in the workers."""


def tables_of_zoo(said: object, where: str, notes: list[str]) -> Tables:
    """The settings in `config.yml`, called `where` in messages; what cannot be taken over is added to `notes`.

    Raises `PresetError` for a file that is no table of settings.
    """
    env: dict[str, Any] = {"n_envs": 1}
    ppo: dict[str, Any] = {}
    run: dict[str, Any] = {}
    for key, value in _pairs(said, where).items():
        if key in _SILENT or (value is None and key not in _PPO):
            continue
        if key in _SCHEDULES:
            ppo[key] = _schedule(value, f"{where}: {key}")
        elif key in _PPO:
            ppo[key] = _whole(value) if key in _COUNTS else value
        elif key == "policy_kwargs":
            ppo |= _policy(value, where, notes)
        elif key == "n_timesteps":
            run["total_timesteps"] = _whole(value)
        elif key in ("n_envs", "frame_stack"):
            env[key] = _whole(value)
        elif key in ("normalize", "normalize_kwargs"):
            env["normalize"] = _normalize(value, env.get("normalize", False))
        elif key == "env_wrapper":
            env["wrappers"] = _wrappers(value, where, notes)
        elif key == "env_kwargs":
            env["kwargs"] = called(value) if isinstance(value, str) else value
        else:
            notes.append(f"{where}: {key} is not taken over")
    return {"env": env, "ppo": {name: it for name, it in ppo.items() if it is not None}, "run": run}


def arguments_table(said: object, where: str, notes: list[str]) -> Tables:
    """The environment, its arguments and the seed in `args.yml`. Raises `PresetError` for another algorithm's run."""
    if said is None:
        return {}
    words = _pairs(said, where)
    algo = words.get("algo", "ppo")
    if algo not in _ALGORITHMS and algo not in OTHERS:
        known = ", ".join((*_ALGORITHMS, *OTHERS))
        raise PresetError(f"{where}: algo = {str(algo)[:40]!r}; only runs of {known} are taken over")
    env: dict[str, Any] = {}
    run: dict[str, Any] = {}
    if isinstance(words.get("env"), str):
        env["id"] = words["env"]
    if isinstance(words.get("env_kwargs"), dict) and words["env_kwargs"]:
        env["kwargs"] = words["env_kwargs"]
    if isinstance(seed := words.get("seed"), int) and 0 <= seed <= LARGEST_SEED:
        run["seed"] = seed
    # The zoo writes -1 for "as config.yml says".
    if isinstance(total := words.get("n_timesteps"), int | float) and total > 0:
        run["total_timesteps"] = int(total)
    packages = words.get("gym_packages")
    if isinstance(packages, list) and packages:
        env["imports"] = [str(it) for it in packages]
    if words.get("trained_agent"):
        notes.append(f"{where}: it went on from {str(words['trained_agent'])[:80]}, which is not part of it")
    if algo in OTHERS:
        return {"env": env, "run": {**run, "algo": algo}}
    ppo = {} if algo == "ppo" else {"algo": _ALGORITHMS[algo]}
    return {"env": env, "ppo": ppo, "run": run}


def atari_packages(env: Mapping[str, Any]) -> tuple[str, ...]:
    """What the wrapper of Atari's games, if it is one of the table's, needs besides them."""
    named = [it["cls"] if isinstance(it, Mapping) else it for it in env.get("wrappers", ())]
    return ("cv2",) if _OUR_ATARI in named else ()


def called(text: str) -> object:
    """The value of an expression of literals, `dict(...)` and names, which become text; None for anything more."""
    try:
        return _literal(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _literal(node: ast.expr) -> object:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_literal(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {str(_literal(key)): _literal(it) for key, it in zip(keys, values, strict=True) if key is not None}
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
            return {word.arg: _literal(word.value) for word in keywords if word.arg is not None}
        case ast.Name() | ast.Attribute():
            return ast.unparse(node)
        case _:
            raise ValueError(ast.unparse(node))


def _pairs(said: object, where: str) -> dict[str, Any]:
    """A table, also as the list of pairs that an ordered dictionary is written as."""
    if isinstance(said, list) and len(said) == 1 and isinstance(said[0], list):
        said = said[0]
    if isinstance(said, list) and all(isinstance(it, list) and len(it) == 2 and isinstance(it[0], str) for it in said):
        return {key: _unwrapped(value) for key, value in said}
    if isinstance(said, Mapping):
        return {str(key): _unwrapped(value) for key, value in said.items()}
    raise PresetError(f"{where}: holds no table of settings")


def _unwrapped(value: object) -> object:
    """An ordered dictionary inside another."""
    pairs = value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list) else None
    if pairs and all(isinstance(it, list) and len(it) == 2 and isinstance(it[0], str) for it in pairs):
        return {key: _unwrapped(inner) for key, inner in pairs}
    return value


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _schedule(value: object, where: str) -> object:
    if not isinstance(value, str):
        return value
    match = _LINEAR.fullmatch(value.strip())
    try:
        return {"start": float(match[1]), "end": 0.0} if match is not None else float(value)
    except ValueError:
        raise PresetError(f"{where} = {value[:40]!r} is neither a number nor lin_ and a number") from None


def _policy(value: object, where: str, notes: list[str]) -> dict[str, Any]:
    """`policy_kwargs` with the network apart, as presets have it."""
    kwargs = called(value) if isinstance(value, str) else value
    if not isinstance(kwargs, dict):
        if value:
            notes.append(f"{where}: policy_kwargs = {str(value)[:80]} is more than data, and is not taken over")
        return {}
    kwargs = dict(kwargs)
    said: dict[str, Any] = {}
    net = kwargs.pop("net_arch", None)
    if isinstance(net, list) and len(net) == 1 and isinstance(net[0], dict):
        net = net[0]  # as SB3 wrote it before 1.8
    if net is not None:
        said["net_arch"] = net
    if isinstance(activation := kwargs.get("activation_fn"), str):
        kwargs["activation_fn"] = activation.rpartition(".")[2]
    return said | ({"policy_kwargs": kwargs} if kwargs else {})


def _normalize(value: object, before: object) -> object:
    said = called(value) if isinstance(value, str) else value
    if isinstance(said, Mapping):
        return {ours: said[name] for name, ours in NORMALIZE.items() if name in said} or before
    return before if said and before else bool(said)


def _wrappers(value: object, where: str, notes: list[str]) -> list[Any]:
    written = value if isinstance(value, list) else [value]
    wrappers: list[Any] = []
    for item in written:
        name, kwargs = next(iter(item.items())) if isinstance(item, dict) and item else (item, None)
        module, _, cls = str(name).rpartition(".")
        if not module:
            notes.append(f"{where}: env_wrapper {str(name)[:60]} is not taken over")
            continue
        named = _OUR_ATARI if name == _ATARI else f"{module}:{cls}"
        wrappers.append({"cls": named, "kwargs": kwargs} if isinstance(kwargs, dict) and kwargs else named)
    return wrappers


_KEY = re.compile(
    r"""(?P<key>'[^']*'|"[^"]*"|[^\s'"\[\]{}#&*!|>%@`-][^:#]{0,200}?|-[^\s:][^:#]{0,200}?)\s*:(?:\s+(?P<rest>.*))?$"""
)
"""Keys are short: a line of many blanks would be tried at each of them."""

_TAG = re.compile(r"!\S*\s*")
_FLOW = re.compile(
    r"""\s*(?:(?P<mark>[\[\]{},:])|(?P<text>'(?:[^']|'')*'|"(?:[^"\\]|\\.)*"|[^\[\]{},:\s][^\[\]{},:]*))"""
)
_WORDS = {"": None, "~": None, "null": None, "true": True, "yes": True, "on": True, "false": False, "no": False}
_WORDS |= {"off": False}
_DEEPEST = 24
_ESCAPES = {"n": "\n", "t": "\t", "\n": ""}


class YamlError(UsageError):
    """A file is not the kind of YAML that is read here."""


class _Lines(Struct):
    """Lines that say something, each with its indent; a list's dash is cut off its first line as it is read."""

    lines: list[tuple[int, str]]
    at: int = 0
    depth: int = field(default=0)

    @property
    def next(self) -> tuple[int, str] | None:
        return self.lines[self.at] if self.at < len(self.lines) else None


def read_yaml(text: str) -> object:
    """What `text` says, as lists, dictionaries with text keys, numbers, truths, text and None. Raises `YamlError`."""
    said = [(len(line) - len(line.lstrip(" ")), line.strip()) for line in text.splitlines()]
    lines = _Lines([(indent, line) for indent, line in said if line and line[0] != "#" and line not in ("---", "...")])
    value = _block(lines, -1) if lines.lines else None
    if lines.at < len(lines.lines):
        raise YamlError(f"there is text after its end: {lines.lines[lines.at][1][:60]!r}")
    return value


def _block(lines: _Lines, above: int) -> object:
    """The value that begins at the next line, which stands deeper than column `above`."""
    lines.depth += 1
    if lines.depth > _DEEPEST:
        raise YamlError(f"its lists lie more than {_DEEPEST} deep in one another")
    assert lines.next is not None
    indent, text = lines.next
    try:
        if text.startswith("!"):
            return _tagged(lines, above)
        if _is_item(text):
            return _items(lines, indent)
        if _KEY.match(text):
            return _table(lines, indent)
        lines.at += 1
        return _scalar(lines, text, above)
    finally:
        lines.depth -= 1


def _tagged(lines: _Lines, above: int) -> object:
    """What a tag stands before: the rest of its line, or the lines below it."""
    indent, text = lines.lines[lines.at]
    rest = _TAG.sub("", text, count=1)
    if rest:
        lines.lines[lines.at] = (indent, rest)
        return _block(lines, above)
    lines.at += 1
    return None if lines.next is None or lines.next[0] < above else _block(lines, above)


def _items(lines: _Lines, indent: int) -> list[object]:
    items: list[object] = []
    while lines.next is not None and lines.next[0] == indent and _is_item(lines.next[1]):
        rest = lines.next[1][1:].lstrip()
        if rest:
            lines.lines[lines.at] = (indent + len(lines.next[1]) - len(rest), rest)
            items.append(_block(lines, indent))
            continue
        lines.at += 1
        items.append(_block(lines, indent) if lines.next is not None and lines.next[0] > indent else None)
    return items


def _table(lines: _Lines, indent: int) -> dict[str, object]:
    table: dict[str, object] = {}
    while lines.next is not None and lines.next[0] == indent and (match := _KEY.match(lines.next[1])):
        key, rest = str(_plain(match["key"])), _TAG.sub("", match["rest"] or "") if match["rest"] else ""
        lines.at += 1
        below = lines.next
        if rest and rest[0] != "#":
            table[key] = _scalar(lines, rest, indent)
        elif below is not None and (below[0] > indent or (below[0] == indent and _is_item(below[1]))):
            # A list may stand under its key without being indented.
            table[key] = _block(lines, indent)
        else:
            table[key] = None
    return table


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _scalar(lines: _Lines, text: str, above: int) -> object:
    """A value that may go on in lines deeper than `above`."""
    if text[0] in "&*|>%@`":
        raise YamlError(f"{text[:40]!r} is a kind of YAML that is not read here")
    parts = [text]
    while lines.next is not None and lines.next[0] > above:
        parts.append(lines.next[1])
        lines.at += 1
    text = " ".join(parts)
    if text[0] in "[{":
        return _flow(text)
    return _plain(text)


def _plain(text: str) -> object:
    if text[0] in "'\"":
        if len(text) < 2 or text[-1] != text[0]:
            raise YamlError(f"{text[:40]!r} has no closing quote")
        body = text[1:-1]
        if text[0] == "'":
            return body.replace("''", "'")
        return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), body)
    text = text.split(" #", 1)[0].rstrip()
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _flow(text: str) -> object:
    tokens = [match["mark"] or match["text"].strip() for match in _FLOW.finditer(text)]
    value, rest = _flow_value(tokens, 0, 0)
    if rest != len(tokens):
        raise YamlError(f"{text[:40]!r} has text after its closing bracket")
    return value


def _flow_value(tokens: list[str], at: int, depth: int) -> tuple[object, int]:
    if at >= len(tokens) or depth > _DEEPEST:
        raise YamlError("a bracket is not closed")
    if tokens[at] not in ("[", "{"):
        return (None, at) if tokens[at] in "]},:" else (_plain(tokens[at]), at + 1)
    closing = "]" if tokens[at] == "[" else "}"
    items: list[object] = []
    table: dict[str, object] = {}
    at += 1
    while at < len(tokens) and tokens[at] != closing:
        value, at = _flow_value(tokens, at, depth + 1)
        if closing == "}" and at < len(tokens) and tokens[at] == ":":
            table[str(value)], at = _flow_value(tokens, at + 1, depth + 1)
        else:
            items.append(value)
        if at < len(tokens) and tokens[at] == ",":
            at += 1
        elif at < len(tokens) and tokens[at] != closing:
            raise YamlError(f"there is no comma before {tokens[at][:40]!r}")
    if at >= len(tokens):
        raise YamlError("a bracket is not closed")
    return (table if closing == "}" else items), at + 1
