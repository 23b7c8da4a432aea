"""From typed words to runs."""

from __future__ import annotations

import pytest

from mission_tui.errors import UsageError
from mission_tui.fleet.store import RunRef, resolve

RUNS = (
    RunRef("20261121-104207-heavy-3f9a", "heavy-3f9a", live=False),
    RunRef("20261121-110000-wide-11c0", "wide", live=True),
    RunRef("20261122-090000-wide-22d1", "wider", live=True),
    RunRef("20261122-100000-demo-0000", "twin", live=False),
    RunRef("20261122-100001-demo-1111", "twin", live=False),
)


@pytest.mark.parametrize(
    ("ref", "ids"),
    [
        ("20261121-104207-heavy-3f9a", (0,)),
        ("20261121-11", (1,)),
        ("heavy", (0,)),
        ("wide", (1,)),
        ("wider", (2,)),
        ("@last", (4,)),
        ("@live", (1, 2)),
    ],
)
def test_ids_prefixes_names_and_words(ref: str, ids: tuple[int, ...]) -> None:
    """An id, a unique prefix of id or name, an exact name before a prefix, the newest run, every live one."""
    assert resolve(ref, RUNS) == tuple(RUNS[index].id for index in ids)


def test_the_name_of_a_group_means_its_runs() -> None:
    """All of them, oldest first; a run of that name comes first, and a prefix of it is none."""
    sweep = [RunRef(f"2026112{day}-100000-lr-000{day}", f"lr-{day}", live=True, group="lr-79d5") for day in (3, 4)]
    assert resolve("lr-79d5", [*RUNS, *sweep]) == tuple(run.id for run in sweep)
    named = RunRef("20261125-100000-x-0000", "lr-79d5", live=True)
    assert resolve("lr-79d5", [*sweep, named]) == (named.id,)
    with pytest.raises(UsageError, match="no run matches 'lr-79'"):
        resolve("lr-79", [*RUNS, *sweep])


def test_a_name_that_ended_runs_have_too_means_the_live_one() -> None:
    """`kill mine` must not be refused for a run that ended last week; of two ended ones neither is meant."""
    runs = [*RUNS, RunRef("20261123-100000-demo-2222", "twin", live=True)]
    assert resolve("twin", runs) == ("20261123-100000-demo-2222",)
    assert resolve("20261122-100001-demo-1111", runs) == ("20261122-100001-demo-1111",)
    with pytest.raises(UsageError, match="'twin' matches 2 runs"):
        resolve("twin", RUNS)


def test_unknown_run_names_the_nearest() -> None:
    """A typo is answered with the run that was probably meant."""
    with pytest.raises(UsageError, match=r"no run matches 'heavi-3f9a'; did you mean 'heavy-3f9a'\?"):
        resolve("heavi-3f9a", RUNS)


def test_unknown_run_without_anything_near_says_where_to_look() -> None:
    """Nothing close: the sentence names the verb that lists runs."""
    with pytest.raises(UsageError, match="mission-tui status"):
        resolve("zzz", RUNS)


@pytest.mark.parametrize("runs", [RUNS, ()])
def test_a_run_of_another_machine_is_asked_for_with_its_host(runs: tuple[RunRef, ...]) -> None:
    """A screen of several machines shows `gpu1:heavy`; that names no run here, however near one is."""
    with pytest.raises(UsageError, match=r"no run matches 'gpu1:heavy': .*mission-tui --host gpu1 VERB heavy$"):
        resolve("gpu1:heavy", runs)
    with pytest.raises(UsageError, match="no run matches ':heavy'") as caught:
        resolve(":heavy", runs)
    assert "--host" not in str(caught.value)


@pytest.mark.parametrize("ref", ["20261122", "twin", "wid"])
def test_ambiguous_run_lists_the_candidates(ref: str) -> None:
    """Two runs that match are both named, whether by prefix or by the same name."""
    with pytest.raises(UsageError, match=r"matches [23] runs: 2026112") as caught:
        resolve(ref, RUNS)
    assert caught.value.exit_code == 2


def test_empty_ref_matches_nothing() -> None:
    """An empty word is a prefix of everything and means nothing."""
    with pytest.raises(UsageError, match="no run matches ''"):
        resolve("", RUNS)


def test_no_runs_at_all() -> None:
    """In an empty runs root `@live` is nobody and `@last` is an error."""
    assert resolve("@live", ()) == ()
    with pytest.raises(UsageError, match="holds no runs"):
        resolve("@last", ())


def test_many_candidates_are_not_all_listed() -> None:
    """A hundred matches do not make a hundred lines."""
    runs = [RunRef(f"20261121-000000-demo-{number:04x}", f"demo-{number:04x}", live=False) for number in range(100)]
    with pytest.raises(UsageError) as caught:
        resolve("demo", runs)
    assert "100 runs" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_name_that_many_runs_begin_with_is_answered_with_their_groups() -> None:
    """Who types the `--name` of a sweep is told what all of its runs are called together."""
    runs = [RunRef(f"id-{n}", f"lr-{n}", live=False, group="lr-ab12") for n in (1, 2)]
    with pytest.raises(UsageError, match=r"or the name of a group for all of it: lr-ab12$"):
        resolve("lr", runs)
