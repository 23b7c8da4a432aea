"""The price of a launch as `--dry-run` says it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from mission_tui.cli.launch_price import launch_price, price_facts, show_price
from mission_tui.cli.session import Session
from mission_tui.fleet.capacity.demand import Cost, ReferenceSpeed, estimated_cost
from mission_tui.fleet.specs.spec import EnvSpec, LaunchItem, PpoSpec, RunSpec, Spec
from mission_tui.ipc.replies import Quoted

SPEC = Spec(
    preset="p",
    env=EnvSpec(id="CartPole-v1", n_envs=4),
    ppo=PpoSpec(n_steps=16, batch_size=64),
    run=RunSpec(total_timesteps=6400),
)
ITEMS = tuple(LaunchItem(spec=SPEC, name=f"s-{number}") for number in (1, 2, 3))
PACE = ReferenceSpeed(name="old", t=0.0, steps_per_s=32.0, start_s=3.0, differs=("ppo.n_epochs 5",))
GOES = Cost(ram_bytes=3 << 30, ram_seen=True, vram_bytes=1 << 30, cores=2, gpu=1, pace=PACE)
WAITS = structs.replace(GOES, gpu=None, waits="waits for another run's end")


def names_in(facts: Any) -> set[str]:
    """Every name in a document."""
    if isinstance(facts, dict):
        return facts.keys() | set().union(*map(names_in, facts.values()))
    return set().union(*map(names_in, facts)) if isinstance(facts, list) else set()


def test_the_table_has_a_row_for_each_price(capsys: pytest.CaptureFixture[str]) -> None:
    """Runs that cost the same share one; where times come from and what all take together is said below."""
    show_price(ITEMS, Quoted(re=1, costs=(GOES, GOES, WAITS), warnings=("a slow rollout",)))
    head, first, second, *notes = capsys.readouterr().err.splitlines()
    assert head.split() == ["run", "memory", "GPU", "memory", "cores", "first", "update", "whole", "run", "now"]
    assert re.split(r"\s{2,}", first.strip()) == [
        "s-1 and 1 more", "3.0G measured", "1.0G est.", "2", "5s", "3m20", "begins on GPU 1",
    ]  # fmt: skip
    assert second.endswith("waits for another run's end")
    assert notes[0].endswith("all 3 at once: 9.0G of memory, 3.0G of GPU memory, 6 cores")
    assert "32 steps/s, as measured for old" in notes[1]
    assert notes[1].endswith("which had ppo.n_epochs 5")
    assert notes[2].endswith("a slow rollout")


def test_what_a_launch_would_refuse_begins_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    """The sentence of the refusal, and a dash where it would say that a run begins."""
    quoted = Quoted(re=1, costs=(GOES,), refused="the name 's-1' is taken")
    show_price(ITEMS[:1], quoted)
    said = capsys.readouterr().err
    assert "would be refused: the name 's-1' is taken" in said
    assert "begins" not in said
    assert price_facts(ITEMS[:1], quoted)["runs"][0]["cost"]["begins"] is None


def test_files_do_not_say_who_begins(capsys: pytest.CaptureFixture[str]) -> None:
    """Nor does arithmetic; memory on a GPU is part of it where there is a driver and the run is not for the CPU."""
    show_price(ITEMS[:1], Quoted(re=1, costs=(estimated_cost(SPEC, 2, driver=True),), decided=False))
    said = capsys.readouterr().err
    assert "no similar run has run here" in said
    assert "no supervisor is running" in said
    assert "begins" not in said
    assert (estimated_cost(SPEC, 2, driver=True).vram_bytes or 0) > 0
    assert estimated_cost(SPEC, 2, driver=False).vram_bytes is None
    on_cpu = structs.replace(SPEC, run=RunSpec(total_timesteps=6400, device="cpu"))
    assert estimated_cost(on_cpu, 2, driver=True).vram_bytes is None


def test_cautions_need_no_supervisor_and_no_runs_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a supervisor would warn of follows from the settings alone."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    loud = structs.replace(SPEC, ppo=structs.replace(SPEC.ppo, ent_coef=5.0))
    quoted = launch_price(Session(tmp_path / "none", tmp_path, {}), [LaunchItem(spec=loud)])
    assert not quoted.decided
    assert [said for said in quoted.warnings if "ppo.ent_coef = 5 outweighs" in said] != []


def test_a_document_has_the_names_of_the_reference() -> None:
    """Of each run what is known of its price; docs/json.md names them all."""
    facts = price_facts(ITEMS, Quoted(re=1, costs=(GOES, GOES, WAITS)))
    assert facts["asked"] == "supervisor"
    costs = [run["cost"] for run in facts["runs"]]
    assert [(cost["begins"], cost["gpu"]) for cost in costs] == [(True, 1), (True, 1), (False, None)]
    assert costs[0]["first_update_s"] == pytest.approx(3.0 + 64 / 32)
    assert costs[0]["whole_run_s"] == pytest.approx(200.0)
    assert costs[0]["pace"] == {"run": "old", "t": 0.0, "steps_per_s": 32.0, "differs": ["ppo.n_epochs 5"]}
    reference = (Path(__file__).parents[2] / "docs" / "json.md").read_text("utf-8")
    (section,) = re.findall(r"^## launch$(.+?)^## ", reference, re.MULTILINE | re.DOTALL)
    assert [name for name in names_in(facts) if f"`{name}`" not in section] == []
