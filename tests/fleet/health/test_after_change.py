"""Trouble after a change of settings is one story: it begins with the change, and its first remedy undoes that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import structs

from mission_tui.fleet.events.findings import Finding, stories
from mission_tui.fleet.events.metrics import MetricRecord, Resumed, SettingsChanged, TrainingStarted
from mission_tui.fleet.health import HealthJudge, judge_of
from mission_tui.fleet.resume.verdict import Change
from mission_tui.fleet.specs.preset import with_words
from tests.fleet.recorded import SPEC, update

KILLED = (
    (22.0, 0.202, 500.0),
    (33.2, 0.00474, 449.0),
    (0.0, 8.37e-06, 317.0),
    (1.44e-08, 0.0138, 184.0),
    (0.0, 1.32e-11, 47.1),
    *((0.0, 1e-10, 9.3),) * 30,
)
"""KL, entropy ratio and mean return of a real CartPole run after its learning rate was set from 0.00021 to 0.1."""
CALM = (0.001, 0.4, 500.0)
HEALTHY = tuple((0.002, 0.9 - 0.005 * number, 10.0 * number) for number in range(1, 51))


def rows(triples: Iterable[tuple[float, float, float]], first: int = 1, attempt: int = 1) -> Iterator[MetricRecord]:
    """Updates `first`, ... of `attempt` with these KLs, entropy ratios and returns."""
    for number, (kl, entropy, mean) in enumerate(triples, start=first):
        clipped = 0.0 if kl < 1e-5 else 0.1
        tags: dict[str, float | str] = {"policy/entropy_ratio": entropy}
        yield update(number, attempt=attempt, tags=tags, approx_kl=kl, clip_fraction=clipped, clip_range=0.2, ret=mean)


def set_after(number: int, *words: str) -> SettingsChanged:
    """`words` taken over after update `number`."""
    return SettingsChanged(900 + number, 1, number, number * 1024, 100.5 + number, 4, words)


def fed(judge: HealthJudge, records: Iterable[MetricRecord]) -> list[Finding]:
    """What becomes known, in order."""
    return [finding for record in records for finding in judge.feed(record)]


def killed(words: tuple[str, ...] = ("ppo.learning_rate=0.03",)) -> HealthJudge:
    """A judge of a run that learned for 50 updates, and was killed by a change after them."""
    judge = judge_of(SPEC)
    fed(judge, [*rows(HEALTHY), set_after(50, *words), *rows(KILLED, 51)])
    return judge


def story_of(judge: HealthJudge) -> Finding:
    """The finding that tells the change."""
    return next(finding for finding in judge.findings if finding.rule == "after-change")


def test_the_story_begins_with_the_change_and_tells_what_it_did() -> None:
    """One sentence: when, what was set, how far updates went, the entropy, the return. It is critical 4 updates on."""
    judge = judge_of(SPEC)
    said = fed(judge, [*rows(HEALTHY), set_after(50, "ppo.learning_rate=0.03"), *rows(KILLED[:4], 51)])
    assert [(finding.id, finding.severity, finding.last_update) for finding in said] == [
        ("after-change-1-51", "warning", 53),
        ("after-change-1-51", "critical", 54),
    ]
    fed(judge, rows(KILLED[4:], 55))
    assert story_of(judge).sentence == (
        "update 50: you set the learning rate x 100 (0.0003 → 0.03); KL 33, entropy 0 by 52, return 500 → 9.3"
    )


def test_what_other_rules_find_since_is_a_symptom_with_the_same_remedy() -> None:
    """Each of them names the story, and following any of them undoes the change from the last good checkpoint."""
    judge = killed()
    story, *others = judge.findings
    symptoms = [finding for finding in others if finding.first_update > 50]
    assert {"policy-frozen", "entropy-collapse"} <= {finding.rule for finding in symptoms}
    assert {finding.part_of for finding in symptoms} == {story.id}
    assert {(finding.advice_set, finding.undo) for finding in (story, *symptoms)} == {
        (("ppo.learning_rate=0.0003",), "back")
    }


def test_a_dead_run_is_never_without_an_open_finding() -> None:
    """From the moment that the return has fallen, whatever other rules open and close meanwhile."""
    judge = judge_of(SPEC)
    fed(judge, [*rows(HEALTHY), set_after(50, "ppo.learning_rate=0.03"), *rows(KILLED[:4], 51)])
    for record in rows(KILLED[4:] * 3, 55):
        judge.feed(record)
        assert any(finding.state == "open" and finding.severity == "critical" for finding in judge.findings)


def test_a_change_that_harms_nothing_yet_is_undone_while_the_run_trains() -> None:
    """Updates that go too far while the return holds: the remedy is to set the old value, without going back."""
    judge = judge_of(SPEC)
    fed(judge, [*rows(HEALTHY), set_after(50, "ppo.n_epochs=40"), *rows([(0.2, 0.4, 500.0)] * 12, 51)])
    story = story_of(judge)
    assert (story.undo, story.advice_set) == ("set", ("ppo.n_epochs=4",))
    assert story.sentence == "update 50: you set n_epochs 4 → 40; KL 0.2"


def test_symptoms_that_get_better_and_worse_again_open_the_story_again() -> None:
    """While the return rises large updates are information; when it sways near its best, the same story goes on.

    One that holds still at its best has nothing left to gain, and nothing is said of it.
    """
    judge = judge_of(SPEC)
    rising = [(0.2, 0.4, 500.0 + 30.0 * max(0, number - 8)) for number in range(38)]
    fed(judge, [*rows(HEALTHY), set_after(50, "ppo.n_epochs=40"), *rows(rising, 51)])
    assert story_of(judge).state == "cleared"
    fed(judge, rows([(0.2, 0.4, 1370.0)] * 40, 89))
    assert story_of(judge).state == "cleared"
    fed(judge, rows([(0.2, 0.4, 1370.0), (0.2, 0.4, 1290.0)] * 20, 129))
    story, *symptoms = (finding for finding in judge.findings if finding.first_update > 50)
    assert (story.rule, story.state, story.severity) == ("after-change", "open", "warning")
    assert {symptom.part_of for symptom in symptoms} == {story.id}


def test_a_change_that_is_taken_back_in_time_ends_the_story() -> None:
    """Nothing was lost, so nothing is left to say; and what was lost is still said once the change is undone."""
    judge = judge_of(SPEC)
    fed(judge, [*rows(HEALTHY), set_after(50, "ppo.n_epochs=40"), *rows([(0.2, 0.4, 500.0)] * 12, 51)])
    fed(judge, [set_after(62, "ppo.n_epochs=4"), *rows([CALM] * 5, 63)])
    assert story_of(judge).state == "cleared"

    judge = killed()
    fed(judge, [set_after(85, "ppo.learning_rate=0.0003"), *rows(KILLED[-5:], 86)])
    story = story_of(judge)
    assert (story.state, story.undo, story.advice_set) == ("open", "back", ())
    assert story.sentence.startswith("update 50: you changed settings, and undid that at update 85; KL 33")


def test_a_policy_that_recovers_ends_the_story() -> None:
    """Once half of what counts as a loss has been made up and there is a choice again."""
    judge = killed()
    fed(judge, rows([(0.002, 0.3, 20.0 * number) for number in range(1, 26)], 86))
    assert story_of(judge).state == "cleared"


def test_a_resume_with_changes_tells_the_same_story() -> None:
    """Against the return that was recorded with the checkpoint, once the window of returns has filled again."""
    spec = with_words(SPEC, (("ppo.learning_rate=0.03",),))
    judge = judge_of(spec)
    judge.resumed_with((Change("ppo.learning_rate", "0.0003", "0.03", "warn", "larger steps"),))
    start = TrainingStarted(1, 2, 100.0, from_update=50, resumed=Resumed(exact=True, mean_before=500.0))
    fed(judge, [start, *rows(KILLED, 51, attempt=2)])
    story = story_of(judge)
    assert story.sentence.startswith("update 50: you resumed with the learning rate x 100 (0.0003 → 0.03); KL 33")
    assert (story.first_update, story.undo, story.advice_set) == (51, "back", ("ppo.learning_rate=0.0003",))


def test_a_schedule_goes_back_as_it_was_and_what_has_no_words_is_not_guessed() -> None:
    """Old values are the words that one would type; of a value that cannot be typed only the advice is left."""
    decaying = with_words(SPEC, (("ppo.learning_rate={ start = 0.001, end = 0.0 }",),))
    judge = judge_of(decaying)
    fed(judge, [*rows(HEALTHY), set_after(50, "ppo.learning_rate=0.1"), *rows(KILLED, 51)])
    assert with_words(judge_of(decaying)._spec or SPEC, (story_of(judge).advice_set,)) == decaying

    judge = judge_of(SPEC)
    judge.resumed_with((Change("ppo.policy_kwargs", "ortho_init: False", "none", "note", ""),))
    fed(judge, [TrainingStarted(1, 2, 100.0, from_update=50), *rows([(0.5, 0.4, 1.0)] * 12, 51, attempt=2)])
    assert (story_of(judge).advice_set, story_of(judge).undo) == ((), "")


def test_without_a_change_symptoms_belong_to_the_earliest_cause() -> None:
    """Updates that go too far open first; the collapse that follows is theirs, and they stay open as long as it is."""
    judge = judge_of(SPEC)
    fed(judge, [*rows(HEALTHY), *rows([(0.2, 0.4, 500.0)] * 8, 51)])
    assert [finding.id for finding in judge.findings] == ["kl-persistent-1-55"]
    fed(judge, rows(KILLED[4:] * 2, 59))
    found = {finding.rule: finding for finding in judge.findings}
    assert found["policy-frozen"].part_of == found["entropy-collapse"].part_of == "kl-persistent-1-55"
    assert found["kl-persistent"].state == "open"
    assert found["kl-persistent"].sentence == (
        "updates 51-58 changed the policy too much: more than 2 x the safe KL; it has not moved since"
    )
    # Told anew long afterwards, it is still of what went too far, and not of a KL of 0 that is not where it is safe.
    fed(judge, [*rows([(0.0, 0.001, 300.0)] * 80, 71), *rows([(0.0, 0.001, 9.0)] * 80, 151)])
    rule = next(rule for rule in judge._rules if rule.id == "kl-persistent")
    assert rule.explain("warning").sentence == found["kl-persistent"].sentence


def test_a_rule_that_is_off_tells_nothing_and_links_nothing() -> None:
    """Who turns it off gets every finding by itself, with its own advice."""
    off = structs.replace(SPEC.keep.health, after_change=structs.replace(SPEC.keep.health.after_change, act="off"))
    judge = judge_of(structs.replace(SPEC, keep=structs.replace(SPEC.keep, health=off)))
    fed(judge, [*rows(HEALTHY), set_after(50, "ppo.learning_rate=0.03"), *rows(KILLED, 51)])
    assert all(finding.rule != "after-change" and not finding.undo for finding in judge.findings)


def test_what_comes_long_after_the_change_is_a_part_of_its_story_while_that_is_open() -> None:
    """A dead policy moves once more, hundreds of updates on: no second story that would offer a checkpoint of then."""
    judge = killed()
    twitch = ((0.0, 0.3, 200.0), (30.0, 0.3, 190.0), *((0.05, 0.2, 150.0 - 12.0 * number) for number in range(12)))
    fed(judge, rows((*((0.001, 0.3, 200.0),) * 260, *twitch, *((0.0, 1e-10, 9.3),) * 30), 86))
    story = story_of(judge)
    later = [finding for finding in judge.findings if finding.first_update > 300]
    assert story.state == "open"
    assert "kl-spike" in {finding.rule for finding in later}
    assert {finding.part_of for finding in later} == {story.id}
    assert [finding.rule for finding in stories(judge.findings) if finding.state == "open"] == ["after-change"]


def test_advice_that_was_followed_is_nobodys_change() -> None:
    """What goes wrong after it stands for itself: to undo it would put back what the advice was against."""
    judge = judge_of(SPEC)
    judge.resumed_with((Change("ppo.learning_rate", "0.001", "0.0003", "note", "", advised=True),))
    start = TrainingStarted(1, 2, 100.0, from_update=50, resumed=Resumed(exact=True, mean_before=500.0))
    fed(judge, [start, *rows(KILLED, 51, attempt=2)])
    assert judge.findings
    assert all(finding.rule != "after-change" and not finding.undo for finding in judge.findings)


def test_a_change_away_from_a_rate_that_breaks_a_policy_is_never_undone() -> None:
    """By a resume or while it trains; and a change to a worse one is answered with a usual rate."""
    judge = judge_of(SPEC)
    judge.resumed_with((Change("ppo.learning_rate", "0.05", "0.0003", "note", ""),))
    start = TrainingStarted(1, 2, 100.0, from_update=50, resumed=Resumed(exact=True, mean_before=500.0))
    fed(judge, [start, *rows(KILLED, 51, attempt=2)])
    assert all(finding.rule != "after-change" for finding in judge.findings)

    extreme = with_words(SPEC, (("ppo.learning_rate=0.5",),))
    judge = judge_of(extreme)
    fed(judge, [*rows(HEALTHY), set_after(50, "ppo.learning_rate=0.0003"), *rows(KILLED, 51)])
    assert all(finding.rule != "after-change" for finding in judge.findings)

    judge = judge_of(extreme)
    fed(judge, [*rows(HEALTHY), set_after(50, "ppo.learning_rate=0.9"), *rows(KILLED, 51)])
    story = story_of(judge)
    (word,) = story.advice_set
    assert (story.undo, word.partition("=")[0]) == ("", "ppo.learning_rate")
    assert float(word.partition("=")[2]) < 0.01
