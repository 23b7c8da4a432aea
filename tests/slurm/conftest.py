"""One cluster for all tests of a process; each test has a runs root with a supervisor of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster, lacking, running_cluster
from tests.supervisor.conftest import Lab, opened_lab


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Two nodes; skips where Slurm is not installed."""
    if why := lacking():
        pytest.skip(why)
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def slurm_lab(tmp_path: Path, cluster: Cluster) -> Iterator[Lab]:
    """A runs root whose supervisor reaches the cluster; no job is left when the test ends."""
    with opened_lab(tmp_path / "runs") as lab:
        lab.environ |= cluster.environ
        lab.start()
        yield lab
        cluster.ask("scancel", "--user=root")
