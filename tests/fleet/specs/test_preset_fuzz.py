"""Whatever a preset or a `--set` word holds, the answer is a valid spec or one typed, printable sentence."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mission_tui.errors import MissionError
from mission_tui.fleet.specs.assignment import expand
from mission_tui.fleet.specs.consistency import violations
from mission_tui.fleet.specs.preset import PresetFile, as_tables, from_tables, read_preset, resolve
from mission_tui.fleet.specs.schema import TABLES
from mission_tui.fleet.specs.spec import Spec

FIELDS = sorted({field.name for struct in TABLES.values() for field in struct.fields})
SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([0, 1, 2, 8, 64, 100, 2**31 - 1, 2**200]),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["auto", "2k", "1e999999999", "50M", "native", "true", "cuda:99", "\ud800", "none", "1e6"]),
    st.dates(),
    st.just(datetime.time(1, 2)),
)
KEYS = st.one_of(st.sampled_from([*FIELDS, "start", "end", "kind", "obs", "pi", "vf", "x"]), st.text(max_size=8))
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)
TABLE = st.dictionaries(KEYS, VALUES, max_size=4)
PRESETS = st.dictionaries(
    st.one_of(st.sampled_from(["env", "ppo", "run", "keep", "name", "key", "extends", "launch"]), st.text(max_size=6)),
    TABLE | VALUES,
    max_size=5,
)
VALID: dict[str, Any] = {
    "env": {"id": "CartPole-v1"},
    "ppo": {"n_steps": 64},
    "run": {"total_timesteps": 1000},
}


def proper(error: MissionError) -> None:
    """A refusal is one printable line of a readable length."""
    assert str(error).isprintable()
    assert len(str(error)) < 1000


def resolved(preset: PresetFile, words: list[str]) -> Spec | None:
    """The spec, or None when it was refused in a proper way."""
    try:
        (assignments, *_) = expand(words)
        spec = resolve(preset, lambda name: preset, assignments)
    except MissionError as error:
        proper(error)
        return None
    assert not list(violations(spec))
    assert msgspec.json.decode(msgspec.json.encode(spec), type=Spec) == spec
    assert from_tables(as_tables(spec), "spec.toml") == spec
    return spec


def read(table: dict[str, Any]) -> PresetFile | None:
    """The preset, or None when it was refused in a proper way."""
    try:
        return read_preset(table, Path("fuzz.toml"))
    except MissionError as error:
        proper(error)
        return None


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(PRESETS)
def test_any_tables_resolve_or_are_refused_in_one_sentence(table: dict[str, Any]) -> None:
    """Random tables under known and unknown names never end in anything but a spec or a `MissionError`."""
    preset = read(table)
    if preset is not None:
        resolved(preset, [])


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(TABLES)), st.sampled_from(FIELDS), VALUES)
def test_any_value_of_any_field_fits_or_is_refused(table: str, field: str, value: object) -> None:
    """One wild value in an otherwise valid preset is taken or refused, and what is taken survives TOML and JSON."""
    preset = read(VALID | {table: {**VALID.get(table, {}), field: value}})
    if preset is not None:
        resolved(preset, [])


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(TABLES)), KEYS, st.text(max_size=20)), max_size=3))
def test_any_set_word_is_taken_or_refused(words: list[tuple[str, str, str]]) -> None:
    """Random `--set` words over a valid preset never end in anything but a spec or a `MissionError`."""
    resolved(read_preset(VALID, Path("valid.toml")), [f"{table}.{key}={text}" for table, key, text in words])


@settings(deadline=None)
@given(st.text(alphabet="[]{}()'\"\\,=.#ab1 \n", max_size=40))
def test_any_text_splits_into_runs(text: str) -> None:
    """However brackets and quotes nest, a value is cut without loss: the parts joined are the text again."""
    try:
        runs = expand([f"env.kwargs.x={text}"])
    except MissionError:
        return
    parts = ["none" if run[0].value is None else run[0].value.text for run in runs]
    assert "".join(",".join(parts).split()) == "".join(text.split())


def test_deep_nesting_in_a_word_is_refused() -> None:
    """Brackets and dots by the thousand are an error like any other."""
    preset = read_preset(VALID, Path("valid.toml"))
    assert resolved(preset, [f"env.kwargs.x={'[' * 5000}{']' * 5000}"]) is not None
    assert resolved(preset, [f"env.kwargs.x={'[' * 20}{']' * 20}"]) is None
    assert resolved(preset, [f"env.kwargs{'.x' * 5000}=1"]) is None
    assert resolved(preset, [f"ppo.n_steps={'9' * 5000}"]) is None
    assert resolved(preset, [f"ppo.n_steps=0x{'f' * 5000}"]) is None
