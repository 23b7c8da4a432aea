"""Which trainings the advice benchmark follows, and what its page and its table say of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from benchmarks.health import advice, advice_page
from benchmarks.health.advice import (
    AS_SETTINGS,
    Outcome,
    Pair,
    Word,
    compared,
    every_pair,
    first_advice,
    follow,
    sick_spec,
)
from benchmarks.health.advice_page import PAGE, page, write_page
from benchmarks.health.constructions import CONSTRUCTIONS, Construction
from benchmarks.health.trace import read_trace, trace_path
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.health.phrases import COMPARE_FIRST
from mission_tui.fleet.health.proven_advice import FOLLOWED

NAMED = {(it.name, it.task.name): it for it in CONSTRUCTIONS}
JUMP, FROZEN = NAMED["lr-300", "cartpole"], NAMED["frozen", "cartpole"]


def test_mistakes_that_are_settings_are_in_the_spec() -> None:
    """So that advice can undo them; every name of the table is a construction."""
    assert AS_SETTINGS.keys() <= {name for name, _ in NAMED}
    assert sick_spec(FROZEN, 1).ppo.learning_rate < 1e-9  # type: ignore[operator]
    assert sick_spec(NAMED["epochs-40", "pendulum"], 1).ppo.n_epochs == 40
    assert sick_spec(NAMED["batch-8", "pendulum"], 1).ppo.batch_size == 25


@pytest.mark.slow
def test_each_construction_is_seen_twice_before_any_is_seen_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then healthy ones with a false warning; no training waits for a slow worker, and none stands there twice.

    Every training is advised here, so that all have their place, and none is judged.
    """
    monkeypatch.setattr(advice, "first_advice", lambda *_: _pair(JUMP, 1).finding)
    pairs = list(every_pair())
    assert any(it.healthy for it in pairs)
    names = [it.name for it in pairs]
    assert len(set(names)) == len(names)
    assert not {"worker-slow", "worker-hang", "unsaved"} & {name for name, _, _ in names}
    third = next(at for at, it in enumerate(pairs) if not it.healthy and it.seed not in it.construction.seeds[:2])
    assert not any(it.healthy or it.seed in it.construction.seeds[:2] for it in pairs[third:])


@pytest.mark.parametrize(
    ("name", "task", "seed", "advice"),
    [
        ("frozen", "cartpole", 101, ("ppo.learning_rate=0.0002",)),
        ("lr-300", "cartpole", 101, ("ppo.learning_rate=0.0008",)),
        ("lr-300", "cartpole", 103, ("ppo.learning_rate=0.0008",)),
        ("gamma-0", "slippery", 11, ("ppo.gamma=0.99",)),
        ("no-value", "acrobot", 101, ("ppo.vf_coef=0.5",)),
        ("nan-reward", "acrobot", 101, None),
        # `throughput` speaks in it, and advises how environments are stepped.
        ("annealed", "noisy-pendulum", 102, None),
    ],
)
def test_the_advice_is_that_of_the_recorded_training(
    name: str, task: str, seed: int, advice: tuple[str, ...] | None
) -> None:
    """A setting that nobody learns with is to be changed first, whatever rule speaks; no setting mends a nan reward."""
    construction = NAMED[name, task]
    found = first_advice(construction, seed, read_trace(trace_path(construction.trace_name(seed))))
    assert (None if found is None else found.advice_set) == advice


def test_a_twin_that_was_trained_for_less_is_compared_by_its_own_last_quarter() -> None:
    """Its level was 0 else, far from anything that was learned."""
    creep = NAMED["creep", "tracking"]
    trace, pair = read_trace(trace_path(creep.trace_name(11))), replace(_pair(creep, 11), healthy=True)
    came_to = compared(_outcome(pair, "better"), pair, trace, trace)
    assert came_to.word == "no difference"
    assert came_to.twin == pytest.approx(-2.77, abs=0.1)


def test_advice_that_a_trial_leaves_cures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The training goes on as it was recorded: the same settings once more would differ from it by chance."""
    pair = _pair(JUMP, 101)
    assert pair.finding is not None
    found = structs.replace(pair.finding, advice=COMPARE_FIRST)
    healthy = read_trace(trace_path(NAMED["healthy", "cartpole"].trace_name(101)))
    monkeypatch.setattr(advice, "trained", lambda *_: healthy)
    for says, word in (("no difference", "no difference"), ("hurts", "no difference"), ("helps", "cured")):
        monkeypatch.setattr(advice, "compared_first", lambda *_, says=says: says)
        came_to = follow(pair, found)
        assert (came_to.trial, came_to.word) == (says, word)


def test_the_page_counts_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcomes of what is advised no longer count nowhere, and stay on the page; a healthy training is no cure."""
    one, two, healthy = (_pair(JUMP, seed) for seed in (101, 102, 103))
    healthy, silent = replace(healthy, healthy=True), replace(_pair(JUMP, 1), finding=None)
    kept = [_outcome(one, "cured"), _outcome(two, "worse"), _outcome(healthy, "worse")]
    kept.append(replace(kept[0], advice=("ppo.n_epochs=2",), word="better"))
    kept.append(replace(kept[0], trial="hurts", word="no difference"))
    text = page((one, two, healthy, silent), kept)
    assert "| sick trainings cured or better with the advice | at least 70 % | 50% (1 of 2) | **missed** |" in text
    assert "| sick trainings worse with it | at most 5 % | 50% (1 of 2) | **missed** |" in text
    assert "false warning worse with it | none | 100% (1 of 1) | **missed** |" in text
    assert "such to which nothing was done | none | – | – |" in text
    untouched = replace(healthy, construction=NAMED["healthy", "cartpole"])
    assert "such to which nothing was done | none | 100% (1 of 1) |" in page(
        (untouched,), [_outcome(untouched, "worse")]
    )
    assert "| `kl-persistent` | `ppo.learning_rate` | 1 of 2 | 1 |" in text
    assert "In 1 more sick trainings no cure is known" in text
    assert "## Advice that is given no longer" in text
    assert "| lr-300 | cartpole | 101 | kl-persistent | `ppo.n_epochs=2` | 20 | 200 | 210 | better |" in text
    assert "| `ppo.learning_rate=0.0008`, tried first: hurts | 20 | 200 | 210 | no difference |" in text
    for name in ("PAGE", "PROVEN"):
        monkeypatch.setattr(advice_page, name, tmp_path / name)
    write_page((one, two, healthy, silent), kept)
    assert '    ("kl-persistent", "ppo.learning_rate"): (1, 1, 2),\n' in (tmp_path / "PROVEN").read_text(
        encoding="utf-8"
    )


def test_what_findings_say_is_what_the_page_says() -> None:
    """The table that ships and the page are written together."""
    text = PAGE.read_text(encoding="utf-8")
    for (rule, key), (helped, worse, tried) in FOLLOWED.items():
        assert f"| `{rule}` | `{key}` | {helped} of {tried} | {worse or ''} |" in text


def _pair(construction: Construction, seed: int) -> Pair:
    words = Finding("x", "kl-persistent", "warning", 74, 80, "", "", "", ("ppo.learning_rate=0.0008",))
    return Pair(construction, seed, words, 69, healthy=False)


def _outcome(pair: Pair, word: Word) -> Outcome:
    assert pair.finding is not None
    return Outcome(*pair.name, word, pair.finding.rule, pair.finding.advice_set, 20.0, 200.0, 210.0, 22.0)
