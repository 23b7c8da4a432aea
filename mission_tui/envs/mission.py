"""What a mission consists of: world, units, rules and rewards as frozen values, one class per TOML file and table.
And a mission's folder, found and read: its four TOML files are checked to make sense together.

Every key is required and typed here and nowhere else, so a folder of four files is complete by itself, and a copy of
its files is enough to replay or evaluate a run under the same rules. An unknown key, a missing one, a wrong type or a
value out of range is refused with one sentence that names the file, the key and what would have been right. All lengths
are metres, all times seconds; the field's origin is its south-west corner, x points east and y north.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from mission_tui.errors import PresetError, nearest

Point = tuple[float, float]
Positive = Annotated[float, "above 0"]
NotNegative = Annotated[float, "0 or more"]
Share = Annotated[float, "between 0 and 1"]

Outcome = Literal["captured", "early_success", "all_disabled", "stalled", "timeout"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
"""How an episode can end; the first of two that happen in the same decision is the one that counts."""

Shaping = Literal["two_way", "one_way", "best_so_far"]
UnitClass = Literal["ground", "air"]


@dataclass(frozen=True, slots=True)
class Box:
    """An axis-aligned rectangle from its south-west to its north-east corner."""

    low_m: Point
    high_m: Point


@dataclass(frozen=True, slots=True)
class Zone:
    """The defended disc; each episode moves its centre by up to `jitter_m` along each axis."""

    centre_m: Point
    radius_m: Positive
    jitter_m: NotNegative


@dataclass(frozen=True, slots=True)
class Patrol:
    """The closed route of one defender, which starts each episode at a random place along it."""

    waypoints_m: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class World:
    """`world.toml`: the field, what stands on it, where attackers start and where defenders patrol.

    Ground units come no nearer than `clearance_m` to an obstacle.
    """

    width_m: Positive
    height_m: Positive
    clearance_m: NotNegative
    zone: Zone
    spawn: Box
    obstacles: tuple[Box, ...]
    patrols: tuple[Patrol, ...]


@dataclass(frozen=True, slots=True)
class UnitKind:
    """What an attacker of one class can do.

    `armour_s` is the seconds of contact with a defender that it withstands, `endurance_s` the seconds after which it
    is spent, and `capture_weight` the capture seconds that it gathers per second in the zone.
    """

    speed_mps: Positive
    armour_s: NotNegative
    endurance_s: Positive
    capture_weight: NotNegative


@dataclass(frozen=True, slots=True)
class Defender:
    """A guard drone: it patrols, chases what it sees within `sight_m`, wears down within `tag_m`, then reloads."""

    patrol_mps: Positive
    chase_mps: Positive
    sight_m: NotNegative
    tag_m: Positive
    reload_s: NotNegative


@dataclass(frozen=True, slots=True)
class Units:
    """`units.toml`: the attackers' classes in slot order (ground units come first), and what each class can do."""

    attackers: tuple[UnitClass, ...]
    ground: UnitKind
    air: UnitKind
    defender: Defender

    def kinds(self) -> tuple[UnitKind, ...]:
        """The kind of each attacker, in slot order."""
        return tuple(self.ground if name == "ground" else self.air for name in self.attackers)


@dataclass(frozen=True, slots=True)
class Rules:
    """`rules.toml`: clocks, what ends an episode, and which endings count as won.

    captured: capture progress has reached `capture_s`.
    early_success: before `early_share` of the time limit, every surviving attacker stands in the zone and capture
    progress has reached `early_hold_s`.
    all_disabled: every attacker is tagged or spent.
    stalled: for `stall_s` neither did the mean distance fall by another `stall_progress_m` nor did capture progress
    set a record; 0 switches this rule off.
    timeout: `time_limit_s` has passed.
    """

    physics_hz: int
    decision_hz: int
    time_limit_s: Positive
    capture_s: Positive
    capture_decay: NotNegative
    early_hold_s: Positive
    early_share: Share
    stall_s: NotNegative
    stall_progress_m: Positive
    winning: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class OutcomeRewards:
    """What each ending pays, once, on the final step."""

    captured: float
    early_success: float
    stalled: float
    all_disabled: float
    timeout: float


@dataclass(frozen=True, slots=True)
class Rewards:
    """`rewards.toml`: pay per metre of mean distance gained, per decision, per capture second, per loss, per ending."""

    shaping: Shaping
    progress_per_m: NotNegative
    step_cost: NotNegative
    capture_per_s: NotNegative
    unit_lost: NotNegative
    outcome: OutcomeRewards


@dataclass(frozen=True, slots=True)
class Mission:
    """A whole mission, checked: what a core needs to simulate it."""

    world: World
    units: Units
    rules: Rules
    rewards: Rewards

    @property
    def ticks_per_decision(self) -> int:
        """Physics ticks between two decisions."""
        return self.rules.physics_hz // self.rules.decision_hz

    def armour_ticks(self) -> list[list[int]]:
        """Physics ticks of contact that each attacker withstands, at least 1; a column of shape (A, 1)."""
        return [[max(1, round(kind.armour_s * self.rules.physics_hz))] for kind in self.units.kinds()]

    def endurance_decisions(self) -> list[list[float]]:
        """Decisions after which each attacker is spent; a column of shape (A, 1)."""
        return [[kind.endurance_s * self.rules.decision_hz] for kind in self.units.kinds()]

    @property
    def tick_s(self) -> float:
        """Seconds of one physics tick."""
        return 1.0 / self.rules.physics_hz

    @property
    def decision_s(self) -> float:
        """Seconds between two decisions."""
        return 1.0 / self.rules.decision_hz


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
    """The four files of a mission; copied into one folder, they are a `config` of their own.

    Raises `PresetError` where one is missing.
    """
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
