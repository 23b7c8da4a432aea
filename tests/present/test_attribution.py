"""Whose the GPU's time and energy were: made-up strips of which the truth is known."""

from __future__ import annotations

import random

import pytest

from mission_tui.fleet.strip import Cell, GpuTrack, Lane, Span, Strip
from mission_tui.present.machines import attribute, duty_sentence


def phases(cycle_s: float, update_s: float, until: float, since: float = 0.0) -> tuple[Span, ...]:
    """Cycles of a rollout and an update."""
    spans = list[Span]()
    t = since
    while t < until:
        spans += [Span("rollout", t, t + cycle_s - update_s), Span("update", t + cycle_s - update_s, t + cycle_s)]
        t += cycle_s
    return tuple(spans)


def busy_in(spans: tuple[Span, ...], inside: float, outside: float, width: float, until: float) -> tuple[Cell, ...]:
    """What a GPU shows that is busy `inside` updates and `outside` of them, with a little noise."""
    dice, cells, t = random.Random(3), list[Cell](), 0.0
    while t < until:
        part = sum(
            max(0.0, min(t + width, span.until) - max(t, span.since)) for span in spans if span.phase == "update"
        )
        mean = min(100.0, max(0.0, outside + (inside - outside) * part / width + dice.uniform(-2.0, 2.0)))
        cells.append(Cell(t, 0.0, mean, inside if part else outside, width, 5))
        t += width
    return tuple(cells)


@pytest.mark.parametrize(("cycle_s", "update_s"), [(6.0, 1.0), (2.0, 0.3), (1.1, 0.12)])
def test_bursts_are_found_in_updates_also_where_they_are_shorter_than_a_cell(cycle_s: float, update_s: float) -> None:
    """97 % in updates and 3 % otherwise, from cells of a quarter of a second, to a few points."""
    spans = phases(cycle_s, update_s, 60.0)
    gpu = GpuTrack(uuid="GPU-a", name="G", busy=busy_in(spans, 97.0, 3.0, 0.25, 60.0))
    strip = Strip(since=0.0, until=60.0, gpus=(gpu,), lanes=(Lane(run="r", name="r", spans=spans, gpu="GPU-a"),))
    (duty,) = attribute(strip).gpus
    assert duty.updating is not None
    assert duty.updating == pytest.approx(100.0 * update_s / cycle_s, abs=1.0)
    assert duty.in_updates == pytest.approx(97.0, abs=5.0)
    assert duty.otherwise == pytest.approx(3.0, abs=2.0)
    assert duty.busy == pytest.approx(3.0 + 0.94 * duty.updating, abs=1.5)


def test_the_sentence_says_what_matters() -> None:
    """And nothing of updates where no run was on the GPU."""
    spans = phases(6.0, 1.0, 60.0)
    gpu = GpuTrack(uuid="GPU-a", name="G", busy=busy_in(spans, 97.0, 3.0, 0.25, 60.0))
    strip = Strip(since=0.0, until=60.0, gpus=(gpu,), lanes=(Lane(run="r", name="r", spans=spans, gpu="GPU-a"),))
    (duty,) = attribute(strip).gpus
    words = duty_sentence(duty)
    assert words.startswith("GPU busy 19 % of the time, 9")
    assert words.endswith("% otherwise; updates took 17 % of it")
    (alone,) = attribute(Strip(since=0.0, until=60.0, gpus=(gpu,))).gpus
    assert duty_sentence(alone) == "GPU busy 19 % of the time, at most 97 %"


def test_a_gpu_that_was_idle_before_its_runs_began_is_said_to_be_busier_beside_them() -> None:
    """Idle for the first half: it is less busy over all than in updates and than otherwise, and neither is wrong."""
    spans = phases(6.0, 3.0, 120.0, 60.0)
    busy = busy_in(spans, 90.0, 70.0, 0.25, 120.0)
    cells = tuple(Cell(cell.t, 0.0, 0.0, 0.0, cell.seconds, 5) if cell.t < 60.0 else cell for cell in busy)
    gpu = GpuTrack(uuid="GPU-a", name="G", busy=cells)
    (duty,) = attribute(
        Strip(since=0.0, until=120.0, gpus=(gpu,), lanes=(Lane(run="r", name="r", spans=spans, gpu="GPU-a"),))
    ).gpus
    assert duty_sentence(duty) == (
        "GPU busy 40 % of the time, 80 % while runs trained: 90 % during updates, 70 % otherwise; "
        "updates took 50 % of that"
    )


def test_where_cells_are_all_alike_nothing_is_told_apart() -> None:
    """Cells of 10 s over cycles of 2 s hold as much of updates as each other."""
    spans = phases(2.0, 0.4, 600.0)
    gpu = GpuTrack(uuid="GPU-a", name="G", busy=busy_in(spans, 97.0, 3.0, 10.0, 600.0))
    strip = Strip(since=0.0, until=600.0, gpus=(gpu,), lanes=(Lane(run="r", name="r", spans=spans, gpu="GPU-a"),))
    (duty,) = attribute(strip).gpus
    assert (duty.in_updates, duty.otherwise) == (None, None)
    assert duty.updating == pytest.approx(20.0, abs=0.5)


def test_energy_is_split_among_the_runs_that_were_alive() -> None:
    """200 W for 100 s; one run alone for the first half, two in the second; nobody's is what no run was there for."""
    watts = tuple(Cell(float(t), 190.0, 200.0, 210.0, 1.0) for t in range(200))
    one = Lane(run="one", name="one", spans=phases(2.0, 1.0, 100.0), gpu="GPU-a", steps=5_000)
    two = Lane(run="two", name="two", spans=phases(2.0, 1.0, 100.0, 50.0), gpu="GPU-a", steps=0)
    cpu = Lane(run="cpu", name="cpu", spans=phases(2.0, 0.5, 100.0), steps=100)
    strip = Strip(since=0.0, until=200.0, gpus=(GpuTrack(uuid="GPU-a", name="G", power=watts),), lanes=(one, two, cpu))
    shares = {share.run: share for share in attribute(strip).runs}
    assert shares["one"].joules == pytest.approx(15_000.0)
    assert shares["one"].joules_per_million_steps == pytest.approx(3e6)
    assert shares["two"].joules == pytest.approx(5_000.0)
    assert (shares["two"].joules_per_million_steps, shares["cpu"].joules) == (None, None)
    assert (shares["cpu"].rollout, shares["cpu"].update) == pytest.approx((75.0, 25.0))


def test_a_moment_says_nothing() -> None:
    """Less than five seconds of a GPU are no duty; a run without phases has no share."""
    gpu = GpuTrack(uuid="GPU-a", name="G", busy=(Cell(0.0, 5.0, 5.0, 5.0, 0.25),))
    found = attribute(Strip(since=0.0, until=1.0, gpus=(gpu,), lanes=(Lane(run="r", name="r"),)))
    assert (found.gpus, found.runs) == ((), ())
