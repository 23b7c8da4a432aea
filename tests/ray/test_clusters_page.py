"""docs/clusters.md: its commands, as they stand there, lead from nothing to a run on Ray."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ray.cluster import RayCluster
from tests.slurm.test_clusters_page import trained_by_the_page

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(900)]


def test_the_commands_of_the_page_train_a_run_on_ray(tmp_path: Path, cluster: RayCluster) -> None:
    """At most five, in a home with Ray's token: the run ends as finished and evaluated, and was a job."""
    token = tmp_path / ".ray" / "auth_token"
    token.parent.mkdir()
    token.write_text(cluster.token, encoding="ascii")
    assert cluster.url in trained_by_the_page("Ray", tmp_path, environ={}, where=("http://127.0.0.1:8265", cluster.url))
