"""`doctor --launcher ray` on a real Ray: the road is tried before the first run takes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.ray.cluster import RayCluster
from tests.slurm.test_roads import Caller, may_unshare, nothing_is_left, refuses_what_is_not_shared

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(900)]


def test_the_road_to_ray_is_proven_both_ways(tmp_path: Path, cluster: RayCluster) -> None:
    """Version, token, room, grace, runs root, interpreter, packages and GPU are each said, and no job is left; what is
    wrong is one sentence.
    """
    somebody = Caller(tmp_path, cluster.environ)
    code, found = somebody.doctor("ray", "--set", "ray.gpus=0.5")
    assert code == 0
    assert [*found] == ["Ray", "token", "room", "stop", "runs root", "interpreter", "packages", "GPU"]
    assert found["token"] == ("ok", "wanted, and yours is accepted")
    assert re.match(r"1 CPU, 0\.5 GPU, [\d.]+ GiB: 2 nodes have it", found["room"][1])
    assert found["GPU"] == ("warn", "the job was shown CUDA_VISIBLE_DEVICES '0'; the driver there lists 0")
    assert {level for name, (level, _) in found.items() if name != "GPU"} == {"ok"}
    assert nothing_is_left(somebody.root)
    assert [number for number in cluster.jobs() if "doctor" in number] == []
    code, found = somebody.doctor("ray", "--set", "ray.gpus=2")
    assert (code, found["room"][0]) == (1, "bad")
    code, found = somebody.doctor("ray", "--set", "ray.address=http://127.0.0.1:9")
    assert (code, found["Ray"]) == (1, ("bad", "Ray does not answer at http://127.0.0.1:9: Connection refused"))
    if may_unshare():
        refuses_what_is_not_shared(somebody, "ray")
