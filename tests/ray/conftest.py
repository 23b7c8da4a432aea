"""One cluster for the tests of all workers, one test at a time; each has a runs root with a supervisor of its own."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ray.cluster import RayCluster, lacking
from tests.supervisor.conftest import Lab, opened_lab


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / "ray.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder in which workers know of one cluster; the last of them that had it ends it. Skips without Ray."""
    if why := lacking():
        pytest.skip(why)
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    mine = folder / f"ray-{os.getpid()}.user"
    with _alone(folder):
        mine.touch()
    yield folder
    with _alone(folder):
        mine.unlink()
        if not list(folder.glob("ray-*.user")) and (known := RayCluster.known(folder)) is not None:
            known.end()


@pytest.fixture
def cluster(shared: Path) -> Iterator[RayCluster]:
    """Two nodes, which this test has for itself."""
    with _alone(shared):
        yield RayCluster.known(shared) or RayCluster.begin(shared)


@pytest.fixture
def ray_lab(tmp_path: Path, cluster: RayCluster) -> Iterator[Lab]:
    """A runs root whose supervisor reaches the cluster; no process of a run is left when the test ends."""
    with opened_lab(tmp_path / "runs") as lab:
        lab.environ |= cluster.environ
        lab.start()
        yield lab
