"""Several machines on one screen: runs below the line of their machine, and runs of which nobody has heard."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from mission_tui.fleet.capacity.demand import Cost, ReferenceSpeed
from mission_tui.fleet.views.snapshot import MachineView
from mission_tui.ipc.replies import Quoted
from mission_tui.ipc.requests import Act, GetStrip, Launch, Quote, Undo
from mission_tui.tui.screens.launch_form import MachinePicker
from mission_tui.tui.screens.machine import MachineScreen
from mission_tui.tui.screens.questions import ConfirmScreen
from mission_tui.tui.state.filter_pattern import FilterPattern
from mission_tui.tui.state.fleet_view_state import list_rows
from mission_tui.tui.state.launch_preview import stays_here
from mission_tui.tui.widgets.panes import framed, inside
from tests.tui.fake_client import a_spec
from tests.tui.fleets import GPU1, HERE, LOST, NOW, a_fleet, a_run, several
from tests.tui.stage import Stage, staged


def place(lines: list[str], word: str) -> int:
    """The first line with that word."""
    return next(at for at, line in enumerate(lines) if word in line)


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (110, 40)])
async def test_runs_stand_below_the_line_of_their_machine(size: tuple[int, int]) -> None:
    """With its meters; a machine without runs has one too, and the cursor goes from run to run."""
    idle = structs.replace(GPU1, name="gpu3", live=0)
    fleet = several(HERE, GPU1)
    async with staged(structs.replace(fleet, hosts=(HERE, GPU1, idle)), size=size) as stage:
        title, *lines = stage.lines()
        order = [place(lines, word) for word in (" here ", " near", " old", " gpu1 ", " gpu1:far", " gpu3 ")]
        assert order == sorted(order)
        assert "37%" in lines[place(lines, " gpu1 ")]
        assert "here + gpu1 + gpu3" in title or "3 machines" in title
        await stage.press("end")
        assert stage.app.view_state.view is not None
        assert stage.app.view_state.view.name == "gpu1:far"


async def test_the_machine_of_the_first_line_stays_in_sight() -> None:
    """In a long list as well, whichever run is chosen."""
    runs = [a_run(f"r{at:02}", host=host, id=f"{host}{at}") for host in ("here", "gpu1") for at in range(30)]
    fleet = structs.replace(a_fleet(tuple(runs)), hosts=(HERE, GPU1))
    async with staged(fleet, size=(80, 24)) as stage:
        for key in ("end", "pageup", "home", "pagedown", "pagedown", "pagedown", "up"):
            await stage.press(key)
            lines = stage.lines()
            first = place(lines, " health ")
            assert any(f" {name} " in lines[first + 1] and "CPU" in lines[first + 1] for name in ("here", "gpu1"))
            assert any(line.startswith(">") for line in lines[first:]), (key, lines)


async def test_what_helps_a_lost_machine_is_read_whole() -> None:
    """On top it takes the lines that it needs, as long as there is room for those of all."""
    why = "it wants a password, and none is asked for here: `ssh-copy-id ada@gpu2`, or an agent"
    lost = structs.replace(LOST, why=why)
    async with staged(several(HERE, lost), size=(80, 24)) as stage:
        whole = " ".join(" ".join(stage.lines()[1:4]).split())
        assert f"3m00: {why}; its runs go on" in whole
    async with staged(several(HERE, structs.replace(lost, live=0)), size=(80, 24)) as stage:
        assert "go on" not in " ".join(stage.lines()), "nobody knows whether it has any"
    full = structs.replace(lost, why="runs root /data cannot be written", refused=True)
    async with staged(several(HERE, full), size=(80, 24)) as stage:
        whole = " ".join(" ".join(stage.lines()[1:4]).split())
        assert "gpu2 has shown no runs for 3m00 and says: runs root /data cannot be written" in whole
    others = [structs.replace(lost, name=f"gpu{at}") for at in range(3, 7)]
    async with staged(several(HERE, lost, *others), size=(80, 24)) as stage:
        assert all(f"gpu{at} has not answered" in stage.lines()[at - 1] for at in range(2, 7))


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (200, 50)])
async def test_a_lost_machine_says_for_how_long_and_why(size: tuple[int, int]) -> None:
    """On top as well, wherever the list stands; its runs say so and are not counted as training."""
    async with staged(several(HERE, LOST), size=size) as stage:
        lines = stage.lines()
        assert "gpu2 has not answered for 3m" in lines[1]
        assert any("gpu2 has not answered for 3m00: Conn" in line for line in lines[2:])
        assert any("gpu2:far" in line for line in lines)
        assert any("no link" in line for line in lines[2:])
        assert "1 live 1 no link" in lines[0]


@pytest.mark.parametrize("width", [48, 79])
def test_a_pane_names_the_other_machine_in_its_title(width: int) -> None:
    """Panes stand apart from the lines of machines, so their frames say whose they are."""
    (away,) = (view for view in several(HERE, GPU1).runs if view.host == "gpu1")
    title, *_ = framed(away, inside(away, width, NOW), width, chosen=False, marked=False)
    assert "gpu1:far" in title.text


async def test_of_many_machines_the_silent_ones_are_counted() -> None:
    """Where there is no list that would name them."""
    many = tuple(structs.replace(LOST if at > 7 else GPU1, name=f"gpu{at}") for at in range(10))
    async with staged(structs.replace(several(HERE), hosts=(HERE, *many)), size=(120, 40)) as stage:
        await stage.press("tab", "z")
        assert any("6 more machines, 2 of them without an answer" in line for line in stage.lines()[:10])


async def test_another_version_stands_with_its_machine() -> None:
    """Its runs are listed like the others."""
    old = structs.replace(GPU1, version="0.1.0")
    async with staged(several(HERE, old), size=(80, 24)) as stage:
        lines = stage.lines()[1:]
        assert "mission-tui 0.1.0" in lines[place(lines, " gpu1 ")]
        assert any("gpu1:far" in line for line in lines)


def test_a_filter_names_a_machine() -> None:
    """`host:gpu1` is that machine and no other; while it is typed, those that begin so; a pattern may follow."""
    gpu10 = structs.replace(GPU1, name="gpu10")
    fleet = several(HERE, GPU1, gpu10)

    def found(words: str) -> tuple[list[str], list[str]]:
        roster = list_rows(fleet, FilterPattern(words), live_apart=False)
        return [view.name for view in roster.runs], [machine.name for machine in roster.machines]

    assert found("host:gpu1") == (["gpu1:far"], ["gpu1"])
    assert found("host:gpu") == (["gpu1:far", "gpu10:far"], ["gpu1", "gpu10"])
    assert found("host:here old") == (["old"], ["here"])
    assert found("host:gpu1 nothing") == ([], [])
    assert found("host:nowhere") == ([], [])
    assert found("far") == (["gpu1:far", "gpu10:far"], ["gpu1", "gpu10"])


async def test_whoever_kills_reads_where() -> None:
    """The question and its answer name the machine, also this one beside others."""
    async with staged(several(HERE, GPU1), size=(80, 24)) as stage:
        await stage.press("K")
        await stage.until(lambda: isinstance(stage.screen, ConfirmScreen), "the question")
        assert "Kill near on here?" in stage.text()
        await stage.press("escape", "end", "s")
        await stage.until(lambda: stage.client.asked_for(Act), "the order")
        await stage.until(stage.toasts, "the answer")
        assert stage.toasts()[-1] == "stop accepted for gpu1:far on gpu1"


async def test_keys_of_one_machine_say_so() -> None:
    """A replay, another runs root and a shell belong to one machine; nothing of this one is opened in its place."""
    async with staged(several(HERE, GPU1), size=(80, 24)) as stage:
        await stage.press("end")
        for key, said in (("H", "mission-tui --host gpu1 replay"), ("W", "shows machines"), ("!", "is on gpu1: ssh")):
            await stage.press(key)
            await stage.until(lambda said=said: any(said in toast for toast in stage.toasts()), said)  # type: ignore[misc]
            await stage.press("escape")


async def test_a_line_of_the_command_line_says_on_which_machine() -> None:
    """That of the chosen run stands there; without one nothing is carried out, here least of all."""
    async with staged(several(HERE, GPU1), size=(80, 24)) as stage:
        await stage.press("end", "semicolon")
        await stage.shows("--host gpu1")
        await stage.press("ctrl+u", *"kill far", "enter")
        await stage.shows("say on which machine: --host here or --host gpu1")


async def test_the_machine_that_is_opened_is_that_of_the_run() -> None:
    """Meters, strip and runs are those of the machine that the cursor was on."""
    async with staged(several(HERE, GPU1), size=(110, 40)) as stage:
        await stage.press("end", "m")
        await stage.until(lambda: isinstance(stage.screen, MachineScreen), "the machine")
        await stage.until(lambda: stage.client.asked_for(GetStrip), "the strip")
        assert stage.client.asked_at[-1] == "gpu1"
        text = stage.text()
        assert "gpu1:/data" in text
        assert "37% of 8 cores" in text
        assert "gpu1:far" in text
        assert "near" not in text


def priced(stage: Stage, **machines: Quoted) -> None:
    """Each machine has that price."""

    def answer(request: Any) -> Quoted:
        quoted = machines[stage.client.asked_at[-1]]
        return structs.replace(quoted, re=request.id)

    stage.client.answers[Quote] = answer


def quoted(steps_per_s: float, waits: str = "") -> Quoted:
    """A price for one run."""
    pace = ReferenceSpeed(name="before", t=NOW - 60, steps_per_s=steps_per_s)
    return Quoted(re=0, costs=(Cost(ram_bytes=1 << 28, waits=waits, pace=pace),))


async def test_a_launch_key_asks_where_and_u_undoes_it_there() -> None:
    """With the price of each machine; `b` takes the best of those that answered."""
    async with staged(several(HERE, GPU1), size=(80, 24)) as stage:
        priced(stage, here=quoted(1000.0, "waits for memory"), gpu1=quoted(500.0))
        await stage.press("1")
        stage.clock.advance(1)  # it was no paste
        await stage.until(lambda: isinstance(stage.screen, MachinePicker), "the question")
        await stage.shows("gpu1  1 of 1 would begin at once")
        await stage.shows("here  0 of 1 would begin at once")
        assert stage.client.asked_for(Launch) == []
        await stage.press("b")
        await stage.until(lambda: stage.client.asked_for(Launch), "the launch")
        assert stage.client.asked_at[-1] == "gpu1"
        await stage.until(stage.app.app_context.undoable, "the way back")
        await stage.press("u")
        await stage.until(lambda: stage.client.asked_for(Undo), "undo")
        await stage.press("1")
        stage.clock.advance(1)  # it was no paste
        await stage.until(lambda: isinstance(stage.screen, MachinePicker), "the question")
        await stage.press("escape")
        assert len(stage.client.asked_for(Launch)) == 1


async def test_the_form_begins_with_a_machine_that_answers() -> None:
    """Whatever the order in which they were named: Ctrl-S at once would be refused."""
    async with staged(several(LOST, GPU1), size=(110, 44)) as stage:
        await stage.press("n")
        await stage.shows("machine < gpu1 >")


async def test_the_form_has_a_field_for_the_machine() -> None:
    """Its price is that of the machine; what only this machine has is refused with what works."""
    async with staged(several(HERE, GPU1), size=(110, 44)) as stage:
        priced(stage, here=quoted(1000.0), gpu1=quoted(500.0))
        await stage.press("n")
        await stage.shows("machine < here >")
        await stage.shows("gpu1  1 of 1 would begin at once")
        stage.screen.query_one("#form-machine").focus()
        await stage.press("right")
        await stage.shows("machine < gpu1 >")
        await stage.press("ctrl+s")
        await stage.until(lambda: stage.client.asked_for(Launch), "the launch")
        assert stage.client.asked_at[-1] == "gpu1"


def test_what_only_this_machine_has_stays_here() -> None:
    """A preset with its own code, for a cluster of this machine, or with its host profile, is not sent to another."""
    plain = a_spec("demo")
    own = structs.replace(plain, env=structs.replace(plain.env, imports=("mine",)))
    cluster = structs.replace(plain, run=structs.replace(plain.run, launcher="slurm"))
    from mission_tui.fleet.specs.spec import LaunchItem

    def said(spec: Any, machine: MachineView = GPU1) -> str:
        return stays_here((LaunchItem(spec=spec),), machine)

    assert said(plain) == ""
    assert "imports mine" in said(own)
    assert "--host gpu1 launch" in said(own)
    assert "slurm of this machine" in said(cluster)
    assert "host profile" in said(structs.replace(plain, profile="host profile demo@box.toml sets run.threads = 2"))
    assert said(own, HERE) == ""
