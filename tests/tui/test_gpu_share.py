"""A GPU that a single run leaves mostly idle is explained, calmly, and only where that is the case."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView, Utilisation
from mission_tui.ipc.requests import GetDetails
from mission_tui.tui.widgets.meters import calm_share
from tests.tui.fake_client import details
from tests.tui.fleets import ENDED, GPU, LIVE, a_fleet, a_run
from tests.tui.stage import staged

RUN = a_run("heavy-3f9a")


def a_machine(mean: float | None, *runs: RunView) -> FleetSnapshot:
    return a_fleet(runs or (RUN, *ENDED), gpus=(structs.replace(GPU, util=Utilisation(now=3.0, mean=mean, max=90.0)),))


def on(device: str, **ppo: Any) -> Any:
    answer = details(1, RUN)
    spec = structs.replace(answer.spec, ppo=structs.replace(answer.spec.ppo, **ppo))
    return structs.replace(answer, spec=spec, effective={"run": {"device": device}})


@pytest.mark.parametrize("mean", [4.0, 10.0, 25.0])
def test_one_mlp_run_on_a_quiet_gpu_is_normal(mean: float) -> None:
    """In the usual range and below it the sentence is the same: nobody needs to do anything."""
    said = calm_share(a_machine(mean), RUN, on("cuda:0"))
    assert said.startswith(f"GPU {mean:.0f}% busy on average: 10-25% is normal for one MLP run")


def test_other_cases_are_not_explained_away() -> None:
    """On the CPU, with other runs beside it, with another network, busier, unused, unknown, or over."""
    assert calm_share(a_machine(14.0), RUN, on("cpu")) == ""
    assert calm_share(a_machine(14.0, *LIVE), RUN, on("cuda")) == ""
    assert calm_share(a_machine(14.0), RUN, on("cuda", policy="CnnPolicy")) == ""
    for mean in (60.0, 0.0, None):
        assert calm_share(a_machine(mean), RUN, on("cuda")) == ""
    assert calm_share(a_machine(14.0), RUN, on("cuda:1")) == ""
    assert calm_share(a_machine(14.0), ENDED[0], on("cuda")) == ""


async def test_it_stands_with_the_readings_and_beside_the_meter() -> None:
    """On the tab of findings, and on a wide screen right where the number is."""
    async with staged(a_machine(14.0), size=(160, 40)) as stage:
        stage.client.answers[GetDetails] = lambda request: structs.replace(on("cuda"), re=request.id)
        await stage.shows("(10-25% is normal for one MLP run)")
        await stage.press("h")
        await stage.shows("GPU 14% busy on average: 10-25% is normal for one MLP run")
    async with staged(a_machine(60.0), size=(160, 40)) as stage:
        assert "normal for one MLP run" not in stage.text()
