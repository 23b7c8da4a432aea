"""Two supervisors on one machine: what one has promised to its runs, the other does not give away again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from msgspec import structs

from mission_tui.errors import PresetError
from mission_tui.fleet.specs.spec import KeepSpec, LimitsKeep, Spec
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Resume
from mission_tui.supervisor.host.ledger import PREFIX
from tests.nvml import stand_in_module
from tests.other_user import as_nobody, needs_another_user, shared_folder
from tests.supervisor.conftest import Lab, large_spec, opened_lab, stub_spec
from tests.supervisor.verbs.test_freeze import NVML
from tests.supervisor.verbs.test_verbs import warnings_of
from tests.waiting import until

SLOW = "600"
"""Seconds that the first update takes, so that the estimate stands."""


@pytest.fixture
def neighbour(lab: Lab, tmp_path: Path) -> Iterator[Lab]:
    """A second runs root with a supervisor; both keep their ledger in the folder above."""
    with opened_lab(tmp_path / "neighbour") as made:
        made.start()
        yield made


def waiting(ram_free: int, total_timesteps: int = 64) -> Spec:
    """A spec that waits until so much memory is left."""
    return structs.replace(stub_spec(total_timesteps), keep=KeepSpec(limits=LimitsKeep(ram_free=ram_free)))


@pytest.mark.slow
def test_memory_that_runs_elsewhere_will_still_take_is_not_free(lab: Lab, neighbour: Lab) -> None:
    """A launch beside a run of another root that has just begun waits, and begins once that one is over."""
    large = large_spec()
    (run,) = neighbour.launch(spec=large, STUB_UPDATE_S=SLOW)
    (second,) = lab.launch(spec=large)
    assert "not reserved for other runs" in (lab.view(second).cause or "")
    neighbour.act("kill", run)
    lab.running(second)


@pytest.mark.slow
def test_what_a_crashed_supervisor_had_reserved_is_free(lab: Lab, neighbour: Lab) -> None:
    """Its entries vanish with it; the next supervisor there reserves again for the run that went on."""
    large = large_spec()
    neighbour.launch(spec=large, STUB_UPDATE_S=SLOW)
    neighbour.kill_supervisor()
    (run,) = lab.launch(spec=large, STUB_UPDATE_S=SLOW)
    lab.act("kill", run)
    lab.ended(run)
    neighbour.start()
    until(lambda: not _fits(lab, large), 20, "it is reserved again")


@pytest.mark.slow
def test_a_resume_knows_what_was_reserved_since(lab: Lab, neighbour: Lab) -> None:
    """Where nothing runs nobody looks at the ledger; a resume does, and is refused or not by what it says now."""
    large = large_spec()
    (run,) = lab.launch(spec=large)
    lab.running(run)
    lab.act("stop", run)
    lab.ended(run)
    until(lambda: not list(lab.root.parent.glob(f"{PREFIX}*")), 20, "its claim is taken back")
    (other,) = neighbour.launch(spec=large, STUB_UPDATE_S=SLOW)
    # Of its own shape it is known how little the stub takes.
    longer = (f"ppo.n_steps={large.ppo.n_steps + 64}",)
    with pytest.raises(PresetError, match="reserved for runs at your other runs roots"):
        lab.ask(lambda id_: Resume(id=id_, run=run, assignments=longer, accept=True))
    neighbour.act("kill", other)
    neighbour.ended(other)
    until(lambda: not list(lab.root.parent.glob(f"{PREFIX}*")), 20, "its claim is taken back")
    resume = lab.ask(lambda id_: Resume(id=id_, run=run, assignments=longer, accept=True))
    assert isinstance(resume, Accepted)


def test_runs_elsewhere_keep_cores_busy_too(lab: Lab, neighbour: Lab) -> None:
    """The warning counts them, and says that they are not here."""
    cores = psutil.cpu_count() or 1
    neighbour.launch(cores)
    (warning,) = (word for word in warnings_of(lab, 1) if "cores and you have" in word)
    assert f"{cores} of them at other runs roots" in warning


def test_two_launches_at_once_do_not_both_get_the_memory(lab: Lab, neighbour: Lab) -> None:
    """Each would fit alone: one of the two is refused."""
    from concurrent.futures import ThreadPoolExecutor

    large = large_spec()
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda each: _fits(each, large, keep=True), (lab, neighbour)))
    assert sorted(done) == [False, True]


@pytest.mark.slow
def test_a_run_waits_for_memory_that_was_promised_elsewhere(lab: Lab, neighbour: Lab) -> None:
    """It is queued with the reason, and begins by itself when the other run is gone."""
    half = psutil.virtual_memory().available // 2
    (large,) = neighbour.launch(spec=large_spec(), STUB_UPDATE_S=SLOW)
    (run,) = lab.launch(spec=waiting(half))
    view = lab.view(run)
    assert view.state == "queued"
    assert "keep.limits.ram_free asks for" in (view.cause or "")
    neighbour.act("kill", large)
    assert lab.ended(run).outcome == "finished"


RESERVES = """
import sys
from pathlib import Path
from mission_tui.fleet.capacity.demand import Claim
from mission_tui.supervisor.host.ledger import Ledger
Ledger(Path(sys.argv[1])).write((Claim(cores=1, ram_bytes=int(sys.argv[2])), Claim(cores=1)))
print("written", flush=True)
sys.stdin.read()
"""


@needs_another_user
def test_a_run_that_waits_names_whose_runs_it_waits_for(idle_lab: Lab) -> None:
    """Its own user's by name, another user's by the user, with what they take; it begins when they are gone."""
    free = psutil.virtual_memory().available
    with shared_folder() as folder:
        folder.chmod(0o1777)
        idle_lab.start(MISSION_TUI_LEDGER=str(folder))
        words = as_nobody("-c", RESERVES, str(folder), str(free * 6 // 10))
        with subprocess.Popen(words, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stranger:
            assert stranger.stdout is not None
            assert stranger.stdout.readline() == "written\n"
            (own,) = idle_lab.launch()
            (run,) = idle_lab.launch(spec=waiting(free // 2))
            cause = idle_lab.view(run).cause or ""
            assert "keep.limits.ram_free asks for" in cause
            assert f"(yours: {idle_lab.view(own).name}; nobody: 2 runs, " in cause
            stranger.kill()
        assert idle_lab.ended(run).outcome == "finished"


def test_who_is_alone_says_so(idle_lab: Lab) -> None:
    """Without a ledger runs start as ever, and the machine's line says what is not known."""
    idle_lab.start(MISSION_TUI_LEDGER=str(idle_lab.root / "absent"))
    (run,) = idle_lab.launch()
    idle_lab.running(run)
    until(lambda: "absent" in idle_lab.snapshot().host.alone_note, 20, "it is said")


def test_memory_of_a_gpu_is_promised_once(idle_lab: Lab, tmp_path: Path) -> None:
    """The first run counts: a launch that may not fit beside it waits with numbers, one on the CPU does not."""
    folder = tmp_path / "gpu"
    folder.mkdir()
    (tmp_path / "holders").write_text("")
    stand_in = NVML.format(holders=tmp_path / "holders").replace("len(holders()), 8 << 30", "100 << 20, 3 << 29")
    idle_lab.start(**stand_in_module(folder, stand_in))
    until(lambda: idle_lab.snapshot().gpus, 20, "the GPU is known")
    # A promise counts until the first update.
    assert not [word for word in warnings_of(idle_lab, 1, SLOW, device="cuda") if "GPU memory" in word]
    (warning,) = (word for word in warnings_of(idle_lab, 1, device="cuda") if "GPU memory" in word)
    assert "of GPU memory: no more than 6" in warning
    assert "(yours: " in warning
    assert not [word for word in warnings_of(idle_lab, 1, device="cpu") if "GPU memory" in word]


def _fits(lab: Lab, spec: Spec, keep: bool = False) -> bool:
    """Whether a launch is taken; the run is ended again unless it is to stay."""
    at_once = structs.replace(spec, keep=KeepSpec(limits=LimitsKeep(queue=False)))
    try:
        (run,) = lab.launch(spec=at_once, STUB_UPDATE_S=SLOW)
    except PresetError:
        return False
    if not keep:
        lab.act("kill", run)
        lab.ended(run)
    return True
