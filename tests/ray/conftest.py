"""One cluster for the tests of a module; each test has a runs root with a supervisor of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.ray.cluster import RayCluster, lacking
from tests.supervisor.conftest import Lab, opened_lab


@pytest.fixture(scope="module")
def kept() -> Iterator[list[RayCluster]]:
    """The cluster of the module, once a test has asked for it; it ends with the module. Skips without Ray."""
    if why := lacking():
        pytest.skip(why)
    clusters: list[RayCluster] = []
    yield clusters
    for each in clusters:
        each.end()


@pytest.fixture
def cluster(kept: list[RayCluster]) -> RayCluster:
    """Two nodes; anew after a test that has lost one."""
    while kept and kept[0].alive() != 2:
        kept.pop().end()
    if not kept:
        kept.append(RayCluster.begin())
    return kept[0]


@pytest.fixture
def ray_lab(tmp_path: Path, cluster: RayCluster) -> Iterator[Lab]:
    """A runs root whose supervisor reaches the cluster; no process of a run is left when the test ends."""
    with opened_lab(tmp_path / "runs") as lab:
        lab.environ |= cluster.environ
        lab.start()
        yield lab
        # What a failed test has left in Ray's queue would begin once nobody looks, and keep the next ones waiting.
        with suppress(OSError):
            cluster.stop_jobs()
