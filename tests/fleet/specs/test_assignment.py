"""The words of `--set`: several runs from commas, and what is no assignment at all."""

from __future__ import annotations

import pytest

from mission_tui.errors import UsageError
from mission_tui.fleet.specs.assignment import MOST_RUNS, expand


def texts(*words: str) -> list[dict[str, str]]:
    """The runs that `words` make, as key and text."""
    return [{a.key: "none" if a.value is None else a.value.text for a in run} for run in expand(words)]


def test_no_words_are_one_run() -> None:
    """Without `--set` there is one run with nothing set."""
    assert expand([]) == [[]]


def test_commas_make_several_runs() -> None:
    """Alternatives of several keys combine, the first key slowest."""
    assert texts("ppo.gamma=0.9, 0.99", "run.seed=1,2") == [
        {"ppo.gamma": "0.9", "run.seed": "1"},
        {"ppo.gamma": "0.9", "run.seed": "2"},
        {"ppo.gamma": "0.99", "run.seed": "1"},
        {"ppo.gamma": "0.99", "run.seed": "2"},
    ]


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("[64,64]", 1),
        ("[64,64],[32,32]", 2),
        ("{start=1e-3,end=0}", 1),
        ("'a,b'", 1),
        ('"a\\",b",c', 2),
        ("[[1,2],[3]],4", 2),
        ("it's,fine", 1),
        ("a],b", 2),
    ],
)
def test_commas_in_brackets_and_quotes_stay(value: str, parts: int) -> None:
    """Only commas outside brackets and quotes separate runs."""
    assert len(expand([f"env.kwargs.x={value}"])) == parts


def test_the_last_word_for_a_key_counts() -> None:
    """A key given twice is set once, so no two runs are the same by accident."""
    assert texts("run.seed=1,2", "run.seed=3") == [{"run.seed": "3"}]


@pytest.mark.parametrize(
    "word", ["ppo.gamma=0.9,0.99,0.90", "ppo.net_arch=[64,64],[64, 64]", "ppo.target_kl=none,None"]
)
def test_a_value_that_comes_twice_is_a_slip(word: str) -> None:
    """Two runs that are the same tell nothing, however the value is written; another type is another value."""
    with pytest.raises(UsageError, match="twice; -n 2 makes two runs of each"):
        expand([word])
    assert len(expand(["env.kwargs.x=1,true,1.0,'1'"])) == 4


@pytest.mark.parametrize("word", ["ppo.n_steps", "=3", "", "ppo.gamma=1,,2", "ppo.gamma=1,"])
def test_words_that_are_no_assignment_are_usage_errors(word: str) -> None:
    """A missing key, equals sign or alternative is refused as a mistake of the command line."""
    with pytest.raises(UsageError, match="--set"):
        expand([word])


def test_a_slip_of_the_comma_does_not_make_thousands_of_runs() -> None:
    """More runs than anyone means are refused before any is made."""
    many = ",".join(map(str, range(100)))
    with pytest.raises(UsageError, match=f"10,000 runs; give values for at most {MOST_RUNS:,}"):
        expand([f"run.seed={many}", f"ppo.n_steps={many}"])


def test_none_means_not_written() -> None:
    """`none` in any case takes a setting back."""
    assert texts("ppo.target_kl=None") == [{"ppo.target_kl": "none"}]
