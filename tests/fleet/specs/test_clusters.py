"""A person's `clusters.toml`: what is asked of Slurm and Ray wherever a preset says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mission_tui.errors import PresetError
from mission_tui.fleet.specs.assignment import expand
from mission_tui.fleet.specs.preset import as_tables, from_tables, read_clusters, read_preset, resolve
from mission_tui.fleet.specs.spec import Spec

FILE = Path("clusters.toml")
TABLE: dict[str, Any] = {"env": {"id": "CartPole-v1"}, "run": {"total_timesteps": 1000}, "ray": {"gpus": 0.5}}


def with_clusters(table: Mapping[str, object], *words: str) -> Spec:
    """A preset that asks for half a GPU of Ray, with `--set` words, over the file of clusters."""
    preset, (assignments,) = read_preset(TABLE, Path("my.toml")), expand(words)
    return resolve(preset, lambda _: preset, assignments, clusters=lambda: read_clusters(table, FILE))


def test_a_person_says_once_what_is_asked_of_a_cluster() -> None:
    """It lies under preset and words, counts for that launcher alone, and is kept with the run."""
    mine = {"ray": {"address": "http://head:8265", "gpus": 1, "cpus": 2}, "slurm": {"account": "lab"}}
    spec = with_clusters(mine, "run.launcher=ray", "ray.cpus=3")
    assert (spec.ray.address, spec.ray.gpus, spec.ray.cpus, spec.slurm.account) == ("http://head:8265", 0.5, 3, None)
    assert with_clusters(mine, "run.launcher=slurm").slurm.account == "lab"
    assert from_tables(as_tables(spec), "spec.toml") == spec


def test_a_run_of_this_machine_does_not_read_it() -> None:
    """Whatever stands there: nobody who stays at home is told of it."""
    assert with_clusters({"nonsense": 1}).ray.address is None


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"rai": {}}, "clusters.toml: unknown table rai; did you mean 'ray'"),
        ({"run": {}}, "clusters.toml: unknown table run"),
        ({"slurm": {"acount": "x"}}, "clusters.toml: unknown key slurm.acount; did you mean 'account'"),
        ({"ray": {"gpus": -1}}, "clusters.toml: ray.gpus = -1 must be at least 0"),
        ({"ray": 1}, "clusters.toml: ray = 1 must be a table of address"),
    ],
)
def test_what_is_wrong_there_names_file_and_key(table: dict[str, object], said: str) -> None:
    """With the nearest that would be right."""
    with pytest.raises(PresetError) as caught:
        with_clusters(table, "run.launcher=ray")
    assert str(caught.value).startswith(said)
