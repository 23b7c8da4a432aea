"""Finds a mission's folder, reads its four TOML files and checks that they make sense together.

A folder is complete by itself, so a copy of its files is enough to replay or evaluate a run under the same rules. An
unknown key, a missing one, a wrong type or a value out of range is refused with one sentence that names the file, the
key and what would have been right.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from mission_tui.envs.mission import Box, Mission, Point, Rewards, Rules, Units, World
from mission_tui.errors import PresetError, nearest

_SHIPPED = Path(__file__).parent / "missions"
_FILES: Mapping[str, type[Any]] = {"world": World, "units": Units, "rules": Rules, "rewards": Rewards}
T = TypeVar("T")

_RANGES: Mapping[str, Callable[[float], bool]] = {
    "above 0": lambda value: value > 0,
    "0 or more": lambda value: value >= 0,
    "between 0 and 1": lambda value: 0 <= value <= 1,
}


def shipped_missions() -> list[str]:
    """Names of the missions that come with the package."""
    return sorted(folder.name for folder in _SHIPPED.iterdir() if folder.is_dir())


def mission_folder(config: str | Path) -> Path:
    """The folder that `config` means: a shipped mission's name, or a path to a folder of rules.

    Raises `PresetError` when it is neither.
    """
    if str(config) in shipped_missions():
        return _SHIPPED / config
    folder = Path(config)
    if folder.is_dir():
        return folder
    names = shipped_missions()
    raise PresetError(
        f"mission '{config}' is neither a folder nor one of {', '.join(names)}{nearest(str(config), names)}"
    )


def mission_files(config: str | Path) -> list[Path]:
    """The four files of a mission; copied into one folder, they are a `config` of their own."""
    folder = mission_folder(config)
    paths = [folder / f"{stem}.toml" for stem in _FILES]
    for path in paths:
        if not path.is_file():
            raise PresetError(f"{path}: file is missing; a mission needs {', '.join(p.name for p in paths)}")
    return paths


def load_mission(config: str | Path = "standard", overrides: Mapping[str, Any] | None = None) -> Mission:
    """Read a mission; `overrides` replaces single keys, as in ``{"rewards": {"step_cost": 0.0}}``.

    Raises `PresetError` naming file, key and nearest valid value.
    """
    overrides = overrides or {}
    for stem in overrides:
        if stem not in _FILES:
            raise PresetError(f"overrides: unknown file '{stem}'{nearest(stem, _FILES)}")
    parts: dict[str, Any] = {}
    for path in mission_files(config):
        change = overrides.get(path.stem, {})
        source = f"{path} with overrides" if change else str(path)
        parts[path.stem] = _build(_FILES[path.stem], _merged(_read(path), change), source)
    mission = Mission(**parts)
    for complaint in _contradictions(mission):
        raise PresetError(f"{mission_folder(config)}: {complaint}")
    return mission


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PresetError(f"{path}: not valid TOML: {error}") from error


def _merged(table: Mapping[str, Any], change: Any) -> Any:
    if not isinstance(change, Mapping):
        return change
    merged = dict(table)
    for key, value in change.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, Mapping) else value
    return merged


def _contradictions(mission: Mission) -> Iterator[str]:
    world, units, rules = mission.world, mission.units, mission.rules
    if rules.physics_hz < 1 or rules.decision_hz < 1 or rules.physics_hz % rules.decision_hz:
        yield "rules.toml: 'physics_hz' must be a whole multiple of 'decision_hz', both at least 1"
    if not rules.winning:
        yield "rules.toml: 'winning' must name at least one outcome"
    if not units.attackers or "ground" in units.attackers[units.attackers.count("ground") :]:
        yield "units.toml: 'attackers' must name at least one unit, ground units first"
    if not world.patrols or not all(patrol.waypoints_m for patrol in world.patrols):
        yield "world.toml: 'patrols' must hold at least one route, each with at least one waypoint"
    field = Box((0.0, 0.0), (world.width_m, world.height_m))
    for name, box in (("spawn", world.spawn), *((f"obstacles[{i}]", box) for i, box in enumerate(world.obstacles))):
        if not (_inside(box.low_m, field) and _inside(box.high_m, field)):
            yield f"world.toml: '{name}' reaches outside the field"
        if box.low_m[0] > box.high_m[0] or box.low_m[1] > box.high_m[1]:
            yield f"world.toml: '{name}' has 'low_m' above 'high_m'"
    for i, obstacle in enumerate(world.obstacles):
        if _overlap(world.spawn, obstacle, world.clearance_m):
            yield f"world.toml: 'spawn' touches 'obstacles[{i}]'"
    reach = world.zone.radius_m + world.zone.jitter_m
    x, y = world.zone.centre_m
    if not (_inside((x - reach, y - reach), field) and _inside((x + reach, y + reach), field)):
        yield "world.toml: 'zone' can reach outside the field"
    if _overlap(world.spawn, Box(world.zone.centre_m, world.zone.centre_m), reach):
        yield "world.toml: 'spawn' can touch 'zone'"


def _inside(point: Point, box: Box) -> bool:
    return all(low <= value <= high for low, value, high in zip(box.low_m, point, box.high_m, strict=True))


def _overlap(first: Box, second: Box, margin_m: float) -> bool:
    return all(
        first.low_m[axis] < second.high_m[axis] + margin_m and second.low_m[axis] - margin_m < first.high_m[axis]
        for axis in (0, 1)
    )


def _build(cls: type[T], table: object, source: str, key: str = "") -> T:
    """Build dataclass `cls` from the TOML `table` found in file `source` under dotted `key` (empty at the top).

    Raises `PresetError` on the first thing that does not fit.
    """
    if not isinstance(table, Mapping):
        raise _misfit(source, key, "a table", table)
    hints = _hints(cls)  # type: ignore[arg-type]
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    for name in table:
        if name not in hints:
            raise PresetError(f"{source}: unknown key '{_join(key, str(name))}'{nearest(str(name), names)}")
    for name in names:
        if name not in table:
            raise PresetError(f"{source}: key '{_join(key, name)}' is missing")
    return cls(**{name: _convert(hints[name], table[name], source, _join(key, name)) for name in names})


@cache
def _hints(cls: type) -> dict[str, Any]:
    """What `cls` says of its fields; to work that out anew takes longer than to read the file."""
    return get_type_hints(cls, include_extras=True)


def _convert(hint: Any, value: object, source: str, key: str) -> object:
    if is_dataclass(hint) and isinstance(hint, type):
        return _build(hint, value, source, key)
    origin = get_origin(hint)
    if origin is tuple:
        return _convert_list(get_args(hint), value, source, key)
    if origin is Annotated:
        return _convert_number(hint, value, source, key)
    if origin is Literal:
        choices = get_args(hint)
        if value not in choices:
            hint_text = nearest(value, choices) if isinstance(value, str) else ""
            raise PresetError(f"{source}: '{key}' must be one of {', '.join(choices)}, found {value!r}{hint_text}")
        return value
    if hint is float:
        return _float(value, source, key)
    if hint is int and (not isinstance(value, int) or isinstance(value, bool)):
        raise _misfit(source, key, "a whole number", value)
    return value


def _convert_list(items: tuple[Any, ...], value: object, source: str, key: str) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise _misfit(source, key, "a list", value)
    if items[-1] is Ellipsis:
        items = (items[0],) * len(value)
    if len(items) != len(value):
        raise _misfit(source, key, f"a list of {len(items)} numbers", value)
    pairs = enumerate(zip(items, value, strict=True))
    return tuple(_convert(hint, item, source, f"{key}[{i}]") for i, (hint, item) in pairs)


def _convert_number(hint: Any, value: object, source: str, key: str) -> float:
    number = _float(value, source, key)
    span = hint.__metadata__[0]
    if not _RANGES[span](number):
        raise PresetError(f"{source}: '{key}' must be {span}, found {number:g}")
    return number


def _float(value: object, source: str, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _misfit(source, key, "a finite number", value)
    return float(value)


def _misfit(source: str, key: str, wanted: str, value: object) -> PresetError:
    where = f"{source}: '{key}'" if key else source
    return PresetError(f"{where} must be {wanted}, found {value!r}")


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name
