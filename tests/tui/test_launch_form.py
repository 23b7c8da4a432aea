"""The form for a run with changes: completed and checked while one types, priced, submitted only when it is right."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from msgspec import structs
from textual.events import Key
from textual.keys import _character_to_key
from textual.widgets import Input, TextArea

from mission_tui.errors import UsageError
from mission_tui.fleet.capacity.demand import Cost, ReferenceSpeed
from mission_tui.fleet.specs.preset import SavedPreset, Saving
from mission_tui.fleet.specs.spec import LaunchItem, PpoSpec, RunSpec
from mission_tui.ipc.replies import Quoted, Refused
from mission_tui.ipc.requests import Check, Launch, Quote
from mission_tui.tui.screens.launch_form import LaunchForm, Presets, SmokeScreen
from mission_tui.tui.screens.questions import ConfirmScreen, LineInputScreen
from mission_tui.tui.session import chosen
from mission_tui.tui.state.launch_draft import Draft, assignments, followed, meaning, price, words
from mission_tui.tui.state.preferences import preferences_in
from mission_tui.tui.state.presets import PresetChoice
from mission_tui.tui.widgets.form_fields import Changes
from tests.tui.fake_client import a_spec
from tests.tui.fleets import NOW
from tests.tui.stage import PRESETS, Stage, staged

ITEM = LaunchItem(spec=a_spec())
PACE = ReferenceSpeed(name="heavy-3f9a", t=NOW - 7200.0, steps_per_s=1000.0, start_s=2.0)
COST = Cost(ram_bytes=700 << 20, cores=1, pace=PACE)


async def opened(stage: Stage) -> None:
    await stage.press("n")
    await stage.until(lambda: isinstance(stage.screen, LaunchForm))
    await stage.shows("rollout 32 x 256 = 8,192")


def where(stage: Stage) -> str | None:
    """The id of the field that keys go to."""
    return stage.screen.focused.id if stage.screen.focused is not None else None


async def to(stage: Stage, field: str) -> None:
    """Go to a field by Tab, as a person would."""
    for _ in range(12):
        if where(stage) == field:
            return
        await stage.press("tab")
    raise AssertionError(f"Tab never came to {field}")


def said(*costs: Cost, refused: str = "", warnings: tuple[str, ...] = ()) -> str:
    """The price of as many runs, as one text."""
    quoted = Quoted(re=1, costs=costs, refused=refused, warnings=warnings)
    return "\n".join(text for text, _ in price((ITEM,) * len(costs), quoted, 16, NOW))


@pytest.mark.slow
async def test_the_form_shows_the_numbers_that_decide_a_run() -> None:
    """Rollout, batch, gradient steps, steps and updates of the chosen preset, and its price, before one types."""
    async with staged() as stage:
        await opened(stage)
        await stage.shows("batch 1,024   epochs 4")
        await stage.shows("gradient steps 32 an update")
        await stage.shows("50,000,000 steps in 6,104 updates")
        await stage.shows("memory 700M (measured)   GPU memory 1.2G (estimate)   cores 1 of 16")
        await stage.shows("first update after 15s   whole run 9h50")
        await stage.shows("at 1,412 steps/s, as heavy-3f9a 2h ago")
        await stage.shows("✓ begins now on GPU 0")


@pytest.mark.slow
async def test_a_change_is_resolved_while_it_is_typed() -> None:
    """A line `ppo.n_steps=512` changes the rollout at once, and is what the price is asked for."""
    async with staged() as stage:
        await opened(stage)
        await stage.press("tab", *"ppo.n_steps=512")
        await stage.shows("rollout 32 x 512 = 16,384")
        await stage.until(lambda: [it.items[0].spec.ppo.n_steps for it in stage.client.asked_for(Quote)[-1:]] == [512])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("ppo.n_stps=512", "unknown key ppo.n_stps; did you mean 'n_steps'?"),
        ("run.engine=fats", "did you mean 'fast'?"),
    ],
)
async def test_a_wrong_word_is_named_and_nothing_can_be_started(typed: str, named: str) -> None:
    """The error stands below with the nearest valid key or value; Ctrl-S does nothing until it is gone."""
    async with staged(size=(132, 30)) as stage:
        await opened(stage)
        await stage.press("tab", *typed)
        await stage.shows(named)
        await stage.press("ctrl+s")
        assert isinstance(stage.screen, LaunchForm)
        assert not stage.client.asked_for(Launch)


@pytest.mark.slow
async def test_tab_completes_keys_and_values() -> None:
    """What Tab takes stands below the changes with its type and its present value; ↓ marks another."""
    async with staged() as stage:
        await opened(stage)
        await stage.press("tab", *"n_st")
        await stage.shows("Tab ppo.n_steps= now 256: a whole number")
        await stage.press("tab", *"512", "enter", *"run.device=c")
        await stage.shows("Tab cpu   ↓ cuda:0")
        await stage.press("down")
        await stage.shows("Tab cuda:0   ↓ cuda")
        await stage.press("tab")
        assert stage.screen.query_one(TextArea).text == "ppo.n_steps=512\nrun.device=cuda:0"
        await stage.press("tab")
        assert where(stage) == "form-name"


@pytest.mark.slow
async def test_keys_that_were_typed_ahead_mean_what_was_typed_before_them() -> None:
    """Tab and Ctrl-S, read before the letters have arrived, complete these, lead on, and start what they say."""
    async with staged() as stage:
        await opened(stage)
        for character in "\tn_st\t512\tnight":
            stage.app.post_message(Key("tab" if character == "\t" else _character_to_key(character), character))
        stage.app.post_message(Key("ctrl+s", None))
        await stage.until(lambda: stage.client.asked_for(Launch))
        (item,) = stage.client.asked_for(Launch)[0].items
        assert (item.name, item.spec.ppo.n_steps) == ("night", 512)


@pytest.mark.slow
async def test_runs_to_follow_complete_by_their_names() -> None:
    """The live and the queued runs, also behind a comma."""
    async with staged() as stage:
        await opened(stage)
        await to(stage, "form-after")
        await stage.press(*"wide-11c0,dee", "tab")
        assert stage.screen.query_one("#form-after", Input).value == "wide-11c0,deep-77aa"


@pytest.mark.slow
async def test_every_field_is_part_of_the_launch() -> None:
    """Name, group, the runs to follow, copies, seeds, device and priority; two runs of each of three seeds are six."""
    async with staged() as stage:
        await opened(stage)
        typed = {
            "name": "night", "group": "sweep-1", "after": "wide-11c0", "copies": "2", "seeds": "3", "first-seed": "10",
            "priority": "-2",
        }  # fmt: skip
        for field, value in typed.items():
            stage.screen.query_one(f"#form-{field}", Input).value = value
        await stage.press("down", "down")
        await to(stage, "form-device")
        await stage.press("right", "right")
        await stage.shows("6 runs (3 seeds x 2 copies); the first:")
        await stage.until(lambda: [len(it.items) for it in stage.client.asked_for(Quote)[-1:]] == [6])
        await stage.press("ctrl+s")
        await stage.until(lambda: stage.client.asked_for(Launch))
        (request,) = stage.client.asked_for(Launch)
        first = request.items[0]
        assert [item.name for item in request.items] == [f"night-{number}" for number in range(1, 7)]
        assert [item.spec.run.seed for item in request.items] == [10, 10, 11, 11, 12, 12]
        assert {(item.group, item.after) for item in request.items} == {("sweep-1", ("wide-11c0",))}
        assert (first.spec.preset, first.spec.run.device) == ("heavy", "cpu")
        assert first.spec.keep.limits.priority == -2


@pytest.mark.slow
async def test_tab_leads_through_every_field() -> None:
    """In the order in which they stand, and Shift-Tab back."""
    async with staged() as stage:
        await opened(stage)
        names = ("changes", "name", "group", "after", "copies", "seeds", "first-seed", "device", "priority", "presets")
        for name in names:
            await stage.press("tab")
            assert where(stage) == f"form-{name}"
        await stage.press("shift+tab")
        assert where(stage) == "form-priority"


@pytest.mark.slow
@pytest.mark.parametrize("size", [(60, 20), (80, 24), (200, 60)])
async def test_every_field_is_seen_at_every_size(size: tuple[int, int]) -> None:
    """None is cut off at the right: on a narrow screen device and priority have a row of their own."""
    async with staged(size=size) as stage:
        await opened(stage)
        for field in ("form-device", "form-priority"):
            region = stage.screen.query_one(f"#{field}").region
            assert region.width >= 2
            assert region.right <= stage.screen.query_one("#sheet").region.right - 1


async def test_enter_on_the_list_takes_the_preset_and_starts_nothing() -> None:
    """It leads to the changes, also in one burst with what is typed next; Ctrl-S starts the preset with them."""
    async with staged() as stage:
        await opened(stage)
        for character in "fast\rrun.":
            stage.app.post_message(Key("enter" if character == "\r" else _character_to_key(character), character))
        await stage.until(lambda: stage.screen.query_one(Changes).text == "run.")
        await stage.shows("CartPole until solved")
        await stage.press(*"seed=3")
        assert not stage.client.asked_for(Launch)
        await stage.press("ctrl+s")
        await stage.until(lambda: stage.client.asked_for(Launch))
        assert stage.client.asked_for(Launch)[0].items[0].spec.preset == "fast"


@pytest.mark.slow
async def test_what_a_launch_would_refuse_cannot_be_started() -> None:
    """The supervisor's own sentence stands first, the numbers below it; when it would not any more, Ctrl-S starts."""
    async with staged() as stage:
        stage.client.answers[Quote] = lambda request: Quoted(re=request.id, costs=(COST,), refused="the name is taken")
        await opened(stage)
        await stage.shows("✗ the name is taken")
        await stage.shows("memory 700M")
        await stage.press("ctrl+s")
        assert isinstance(stage.screen, LaunchForm)
        del stage.client.answers[Quote]
        await stage.press("down")
        await stage.shows("✓ begins now")
        await stage.press("ctrl+s")
        await stage.until(lambda: stage.client.asked_for(Launch))


@pytest.mark.slow
async def test_a_price_that_nobody_tells_keeps_nothing_from_starting() -> None:
    """The form says why it is not known."""
    async with staged() as stage:
        stage.client.answers[Quote] = lambda request: Refused(re=request.id, message="limits.toml: unknown key")
        await opened(stage)
        await stage.shows("what it costs is not known: limits.toml: unknown key")
        await stage.press("ctrl+s")
        await stage.until(lambda: stage.client.asked_for(Launch))


@pytest.mark.slow
async def test_everything_said_can_be_reached_at_80x24() -> None:
    """PgDn leads through what does not fit, to the sentence about what only the command line does."""
    async with staged() as stage:
        await opened(stage)
        await stage.shows("✓ begins now")
        await stage.shows("PgDn more")
        for _ in range(4):
            await stage.press("pagedown")
        await stage.shows("--preset FILE")
        await stage.shows("PgUp more")
        assert "PgDn" not in stage.text()
        await stage.press("pageup", "pageup", "pageup", "pageup")
        await stage.shows("PgDn more")
        await stage.shows("rollout 32 x 256 = 8,192")


@pytest.mark.slow
async def test_what_stands_in_the_form_can_be_tried_first() -> None:
    """Ctrl-T: each step with what came of it, memory and hours; then the form is there as it was, nothing started."""
    async with staged() as stage:
        await opened(stage)
        await stage.press("tab", *"ppo.n_steps=512", "ctrl+t")
        await stage.until(lambda: isinstance(stage.screen, SmokeScreen))
        await stage.shows("✓ versions")
        await stage.shows("✗ imports     env.imports: module 'mine' cannot be imported")
        await stage.shows("- rollout")
        await stage.shows("2h30 for the whole run")
        (request,) = stage.client.asked_for(Check)
        assert request.spec.ppo.n_steps == 512
        await stage.press("escape")
        await stage.shows("rollout 32 x 512 = 16,384")
        assert not stage.client.asked_for(Launch)


@pytest.mark.slow
async def test_what_stands_in_the_form_becomes_a_preset() -> None:
    """Ctrl-O asks for its name and key, then before writing over one; it is in the list at once and chosen."""
    wishes: list[tuple[Saving, bool]] = []
    presets = list(PRESETS)

    def save(saving: Saving, replace: bool) -> SavedPreset:
        wishes.append((saving, replace))
        if replace:
            presets.append(PresetChoice(saving.name, "demo with ppo.n_steps=512", saving.key))
        return SavedPreset(
            saving.name, "/home/ada/calm.toml", "" if replace else "/home/ada/calm.toml is there already"
        )

    async with staged(save_preset=save) as stage:
        stage.app.app_context.load_presets = lambda: tuple(presets)
        await opened(stage)
        await stage.press("tab", *"ppo.n_steps=512")
        await stage.shows("rollout 32 x 512 = 16,384")
        await stage.press("ctrl+o")
        await stage.until(lambda: isinstance(stage.screen, LineInputScreen))
        await stage.press(*"calm 5", "enter")
        await stage.until(lambda: isinstance(stage.screen, ConfirmScreen))
        await stage.shows("/home/ada/calm.toml is there already.")
        await stage.press("y")
        await stage.until(lambda: isinstance(stage.screen, LaunchForm))
        await stage.until(lambda: stage.screen.query_one(Presets).current.value == "calm")  # type: ignore[union-attr]
        assert wishes == [(Saving("demo", "calm", ("ppo.n_steps=512",), "5"), replace) for replace in (False, True)]
        assert stage.screen.query_one(TextArea).text == ""


@pytest.mark.slow
async def test_presets_that_are_read_late_are_listed_then() -> None:
    """The form may be open before the presets have been read: it lists them as soon as they have."""
    async with staged() as stage:
        stage.app.app_context.presets = ()
        await opened(stage)
        await stage.shows(">demo")


@pytest.mark.slow
async def test_escape_leaves_the_form() -> None:
    """Nothing is started."""
    async with staged() as stage:
        await opened(stage)
        await stage.press("tab", "x", "escape")
        assert not isinstance(stage.screen, LaunchForm)
        assert not stage.client.asked_for(Launch)


@pytest.mark.slow
async def test_letters_in_the_form_are_text() -> None:
    """`q`, `s` and `3` typed into a field neither leave nor stop nor start."""
    async with staged() as stage:
        await opened(stage)
        await stage.press("tab", "tab", *"qs3K")
        assert isinstance(stage.screen, LaunchForm)
        assert {type(request) for request in stage.client.asked_by_hand} <= {Quote}
        assert stage.screen.query_one("#form-name", Input).value == "qs3K"


def test_assignments_are_lines_without_blanks_and_remarks() -> None:
    """Blank lines and lines that begin with `#` say nothing."""
    assert assignments("ppo.n_steps=512\n\n  # a remark\n run.seed=1,2 ") == ("ppo.n_steps=512", "run.seed=1,2")
    assert assignments("--set ppo.gamma=0.9\n--set=run.seed=1\n--set") == ("ppo.gamma=0.9", "run.seed=1")


def test_fields_are_words_like_any_other() -> None:
    """Seeds count up from the first, or from 1; a first one alone is the seed; none is the preset's."""
    assert words(Draft(seeds="3")) == ("run.seed=1,2,3",)
    assert words(Draft(seeds="2", first_seed="7")) == ("run.seed=7,8",)
    assert words(Draft(first_seed="7", device="cpu", priority="1")) == (
        "run.seed=7",
        "run.device=cpu",
        "keep.limits.priority=1",
    )
    assert words(Draft()) == ()
    assert followed(Draft(after="a, b c")) == ("a", "b", "c")


@pytest.mark.parametrize(
    ("draft", "named"),
    [
        (Draft(seeds="65"), "seeds: a number from 1 to 64; the nearest valid value is 64"),
        (Draft(first_seed="x"), "from: x is not a number"),
        (Draft(priority="1001"), "the nearest valid value is 1000"),
        (Draft(changes="run.seed=1", seeds="2"), "run.seed is in the changes and in a field"),
    ],
)
def test_a_field_that_cannot_be_is_named(draft: Draft, named: str) -> None:
    """With what can be; what is said twice is not guessed at."""
    with pytest.raises(UsageError, match=named):
        words(draft)
    with pytest.raises(UsageError, match="runs of each: a number from 1 to 64"):
        _ = Draft(copies="0").runs_of_each


def test_the_meaning_of_several_items_says_by_what_they_are_many() -> None:
    """The first one's numbers stand for all."""
    assert meaning([ITEM])[0].startswith("1 run  ")
    assert meaning([ITEM] * 12, ("ppo.gamma=0.9,0.99", "run.seed=1,2,3"), 2)[0].startswith(
        "12 runs (2 of ppo.gamma x 3 seeds x 2 copies); the first:"
    )


def test_an_environment_that_is_nearly_known_is_doubted() -> None:
    """Only the preflight knows for sure, but a slip of the finger is named at once."""
    wrong = structs.replace(ITEM.spec, env=structs.replace(ITEM.spec.env, id="CartPol-v1", config=None))
    assert "did you mean 'CartPole-v1'? Ctrl-T tries it" in meaning([LaunchItem(spec=wrong)])[-1]


def test_another_algorithm_is_said_with_the_engine_that_trains_it() -> None:
    """The fast engine knows PPO alone; the form says so before a run is launched, and of PPO nothing."""
    plain = a_spec()
    masked = structs.replace(plain, ppo=structs.replace(plain.ppo, algo="maskable_ppo"))
    assert "maskable_ppo of sb3-contrib   engine stock" in meaning([LaunchItem(spec=masked)])
    assert not any("engine" in line for line in meaning([LaunchItem(spec=plain)]))


def test_an_update_of_whole_episodes_is_said_by_its_least() -> None:
    """How long the episodes of an iteration are nobody knows before; of steps it is exact, as before."""
    plain = a_spec()
    alone = structs.replace(plain, env=structs.replace(plain.env, n_envs=1), ppo=PpoSpec())
    said = meaning([LaunchItem(spec=structs.replace(alone, run=RunSpec(algo="ars", total_timesteps=5_000)))])
    assert said[0].endswith("5,000 steps in at most 10 updates")
    assert said[1].endswith("an update is at least 512 steps of 1 environment(s)")
    assert said[2].startswith("8 perturbations in both directions an iteration")
    said = meaning([LaunchItem(spec=structs.replace(alone, run=RunSpec(algo="sac", total_timesteps=5_000)))])
    assert said[0].endswith("5,000 steps in 10 updates")


def test_times_say_where_they_come_from() -> None:
    """The run whose speed it is, how long ago, and what it had that is other here; or that nothing like it ran here."""
    assert "at 1,000 steps/s, as heavy-3f9a 2h ago" in said(COST)
    differing = structs.replace(PACE, differs=("env.n_envs 8", "ppo.n_steps 16", "ppo.n_epochs 3", "run.threads 2"))
    assert "2h ago, but it had env.n_envs 8, ppo.n_steps 16, ppo.n_epochs 3 and 1 more" in said(
        structs.replace(COST, pace=differing)
    )
    unknown = said(structs.replace(COST, pace=None))
    assert "never run here, so its speed is not known; Ctrl-T measures it" in unknown
    assert "whole run" not in unknown


def test_who_waits_is_said_with_the_queues_own_words() -> None:
    """One, all or some of them; a launch that would be refused begins nothing."""
    waits = structs.replace(COST, waits="waits for 3.1 GiB of memory: 1.0 GiB are free")
    assert said(waits).startswith("◌ waits for 3.1 GiB of memory: 1.0 GiB are free")
    assert "✓ all 2 begin now" in said(COST, COST)
    assert "◌ 1 begin now, 2 queued: the first waits for 3.1 GiB of memory" in said(COST, waits, waits)
    assert "all 3 at once: 2.1G of memory, 3 cores" in said(COST, waits, waits)
    assert "begins" not in said(COST, refused="no")
    assert said(COST, warnings=("slow",)).endswith("▲ slow")


@pytest.mark.slow
async def test_a_filled_form_that_is_left_is_there_again() -> None:
    """Escape by mistake costs nothing: `n` brings every field back, and Ctrl-N empties them."""
    async with staged() as stage:
        await opened(stage)
        await stage.press("down", "tab", *"ppo.n_steps=512", "tab", *"night", "escape")
        await stage.until(lambda: any("n brings it back" in toast for toast in stage.toasts()))
        await stage.press("n")
        await stage.shows("New run, as you left it")
        await stage.shows("rollout 32 x 512 = 16,384")
        preset, name = stage.screen.query_one(Presets).current, stage.screen.query_one("#form-name", Input).value
        assert (preset and preset.value, name) == ("fast", "night")
        await stage.press("ctrl+n", "escape", "n")
        await stage.shows("rollout 32 x 256 = 8,192")
        assert "as you left it" not in stage.text()


@pytest.mark.slow
async def test_a_form_is_there_again_after_the_line_dropped() -> None:
    """What is typed is kept as it stands, without a key for it, until it is launched; in another folder it is not."""
    async with staged() as stage:
        await opened(stage)
        await stage.press("down", "tab", *"ppo.n_steps=512")
        await stage.until(lambda: chosen(stage.app).form == {"preset": "fast", "changes": "ppo.n_steps=512"})
    kept = preferences_in({"form": {"preset": "fast", "changes": "ppo.n_steps=512", "of": "another version"}})
    async with staged(preferences=kept) as stage:
        await stage.press("n")
        await stage.shows("New run, as you left it")
        await stage.shows("rollout 32 x 512 = 16,384")
        await stage.press("ctrl+s")
        await stage.until(lambda: chosen(stage.app).form == {})
    gone = preferences_in({"form": {"preset": "of-another-folder", "changes": "ppo.n_steps=512"}})
    async with staged(preferences=gone) as stage:
        await opened(stage)
        assert "as you left it" not in stage.text()


@pytest.mark.slow
async def test_a_launch_that_is_refused_leaves_the_form_to_be_mended() -> None:
    """The toast says so; once it is launched the next form is empty."""
    async with staged() as stage:
        stage.client.answers[Launch] = lambda it: Refused(re=it.id, message="the name night is taken")
        await opened(stage)
        await to(stage, "form-name")
        await stage.press(*"night", "ctrl+s")
        await stage.until(lambda: any("taken; the form is kept: n brings it back" in toast for toast in stage.toasts()))
        del stage.client.answers[Launch]
        await stage.press("n")
        await stage.shows("New run, as you left it")
        await stage.press("ctrl+s")
        await stage.until(lambda: len(stage.client.asked_for(Launch)) == 2)
        assert stage.client.asked_for(Launch)[-1].items[0].name == "night"
        await stage.until(lambda: stage.app.app_context.kept_form is None)


async def test_the_list_says_what_enter_takes_and_letters_search() -> None:
    """Enter takes the preset under the cursor, Ctrl-S starts it; letters that no preset has are not taken."""
    async with staged() as stage:
        await opened(stage)
        await stage.shows("Enter takes demo  Ctrl-S starts it as below  letters search")
        await stage.press(*"bex")
        await stage.shows("Enter takes beast  Ctrl-S starts it as below  search: be")
        await stage.press("backspace", "backspace", *"deep")
        await stage.shows("Enter takes trio  Ctrl-S starts it as below")
        assert stage.screen.query_one(Presets).sought == "deep"
        await stage.press("up")
        await stage.shows("Enter takes beast  Ctrl-S starts it as below  letters search")
        await stage.pilot.resize_terminal(60, 20)
        await stage.shows("Enter takes beast  letters search")  # and not the former words, cut off
        assert not stage.client.asked_for(Launch)


async def test_a_whole_name_chooses_the_preset_of_that_name() -> None:
    """Also where one that begins with the same letters stands above it, as one's own do."""
    async with staged(presets=(PresetChoice("demo-mine"), PresetChoice("demo"))) as stage:
        await opened(stage)
        await stage.press(*"demo")
        await stage.shows("Enter takes demo  Ctrl-S starts it as below  search: demo")


async def test_presets_that_are_read_while_the_form_is_made_are_in_it() -> None:
    """It is made with none, and they are there when it is shown: nothing else would list them any more."""
    async with staged() as stage:
        context = stage.app.app_context
        read, context.presets = context.presets, ()
        form = LaunchForm(context)
        context.presets = read
        await stage.app.push_screen(form)
        await stage.shows(">demo")


async def test_before_the_presets_are_read_the_form_says_so() -> None:
    """And lists them once they are there; that there are none would be wrong."""
    async with staged() as stage:
        gate, context = threading.Event(), stage.app.app_context
        load, context.presets = context.load_presets, ()

        def wait() -> Any:
            assert gate.wait(20.0)
            return load()

        context.load_presets = wait
        try:
            await stage.press("n")
            await stage.shows("the presets are not read yet")
        finally:
            gate.set()
        await stage.until(lambda: "not read yet" not in stage.text(), "read")
        await stage.shows(">demo")
