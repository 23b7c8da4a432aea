"""The page `docs/health/advice.md` about which advice was followed and what came of it, and the table of it that ships.

Only outcomes of what is advised today count; those of what was advised before stay on the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.health.advice import Outcome, Pair, Word
from mission_tui.fleet.health.usual_settings import evidence_key

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "health" / "advice.md"
PROVEN = ROOT / "mission_tui" / "fleet" / "health" / "proven_advice.py"

HEAD = """# Does the advice cure?

Written by `make health-advice`. For each recorded training that is sick ([health](../health.md)) the first warning or
worse that advises settings is followed from the last good point, with the same seed and to the same budget. The control
is the training as it was recorded. Mistakes that are settings (a learning rate, epochs, gamma) are in the settings of
both, so advice can undo them; what is wrong with the world (rewards, observations, code) stays wrong in both.

*Cured*: in its last quarter the advised training is back inside its healthy twin's band, by the same test that says of
the control that it came to harm. *Better* and *worse*: its mean score of that quarter (of MissionGym the share won,
elsewhere what the task itself pays) differs from the control's by more than a tenth of what the twin learned; less is
*no difference*. A training whose numbers became nan counts as having learned nothing. *None known*: findings name the
trouble and advise no setting. What `throughput` advises is not followed: it changes the speed and no number.

Where a finding says to compare first, as of a value function that nothing teaches although the return has risen, a
trial like that of `mission-tui try` comes before ([trying](../trying.md)), with its usual budget and pairs. Advice that
*hurts* there, or makes *no difference*, is not taken: the training stays as it was recorded, and as it is that counts.

A training counts as healthy where the test finds no harm, though something was done to it, too: of a world that needs
no foresight, say, `gamma` may well be 0.

Advice was changed after looking at trainings of both halves, so neither half is held out here.
"""

BY_ADVICE = """What a finding on the screen says of its advice is from this table: that no cure is known, where the
advice helped in at most a fifth, and how many it made worse, where those are more than a fifth. Settings so far from
any that PPO is known to learn with that they are to be changed first count together, as `any`: whatever finding speaks,
it advises the same."""

PROVEN_HEAD = '''"""Which advice cured trainings that were made sick: written by `make health-advice`, not by hand."""

from __future__ import annotations

from collections.abc import Mapping

FOLLOWED: Mapping[tuple[str, str], tuple[int, int, int]] = {
'''

PROVEN_FOOT = '''"""By rule and setting: sick trainings that followed it, as how many did better, worse, and in all.

`any` is a usual setting in place of one that nobody learns with, whichever rule advised it.
"""
'''

Change = tuple[str, str]
"""The rule, or `any` for what all advise alike, and the first setting that it advised."""


def write_page(pairs: Sequence[Pair], kept: Sequence[Outcome]) -> None:
    """Write the page and the table."""
    PAGE.write_text(page(pairs, kept), encoding="utf-8")
    lines = [
        f'    ("{rule}", "{key}"): ({helped}, {worse}, {tried}),\n'
        for (rule, key), (helped, worse, tried) in sorted(followed(current(pairs, kept)).items())
    ]
    PROVEN.write_text(f"{PROVEN_HEAD}{''.join(lines)}}}\n{PROVEN_FOOT}", encoding="utf-8")


def current(pairs: Sequence[Pair], kept: Sequence[Outcome]) -> list[tuple[Pair, Outcome]]:
    """Pairs with the outcome of what is advised today, as far as there is one."""
    by_key = {it.key: it for it in kept}
    return [(pair, by_key[pair.key]) for pair in pairs if pair.key in by_key]


def followed(tried: Iterable[tuple[Pair, Outcome]]) -> dict[Change, tuple[int, int, int]]:
    """How many sick trainings did better, how many worse, of how many, by rule and setting."""
    found: dict[Change, tuple[int, int, int]] = {}
    for pair, it in tried:
        if pair.healthy or it.word == "refused":
            continue
        helped, worse, of = found.get(_change(pair), (0, 0, 0))
        found[_change(pair)] = helped + (it.word in ("cured", "better")), worse + (it.word == "worse"), of + 1
    return found


def page(pairs: Sequence[Pair], kept: Sequence[Outcome]) -> str:
    """The page, and what it comes to."""
    tried = current(pairs, kept)
    sick = [(pair, it) for pair, it in tried if not pair.healthy]
    healthy = [(pair, it) for pair, it in tried if pair.healthy]
    counted = {it.key for _, it in tried}
    before = [it for it in kept if it.key not in counted]
    parts = [
        HEAD.rstrip(),
        _goals(pairs, sick, healthy),
        "## By advice",
        BY_ADVICE,
        _by_advice(sick),
        "## By construction",
        _by_construction([it for it in pairs if not it.healthy], {pair.name: it for pair, it in sick}),
        "## Healthy trainings with a false warning",
        "Followed from before the warning, or what was done to it, beside a control that goes on from there as it was.",
        _pairs([it for _, it in healthy]),
        "## Each sick training",
        _pairs([it for _, it in sick]),
    ]
    if before:
        parts += ["## Advice that is given no longer", _pairs(before)]
    return "\n\n".join(parts) + "\n"


def _goals(pairs: Sequence[Pair], sick: Sequence[tuple[Pair, Outcome]], healthy: Sequence[tuple[Pair, Outcome]]) -> str:
    good, worse = (sum(it.word in words for _, it in sick) for words in (("cured", "better"), ("worse",)))
    hurt = sum(it.word == "worse" for _, it in healthy)
    untouched = [it for pair, it in healthy if not pair.construction.harm]
    hurt_untouched = sum(it.word == "worse" for it in untouched)
    all_sick = [it for it in pairs if not it.healthy]
    silent = sum(it.finding is None for it in all_sick)
    to_try = sum(it.finding is not None for it in all_sick)
    to_hurt = len(pairs) - len(all_sick)
    halves = [
        f"{half}: {sum(it.word in ('cured', 'better') for pair, it in sick if pair.half == half)} of "
        f"{sum(pair.half == half for pair, _ in sick)}"
        for half in ("tuning", "scoring")
    ]
    rows = [
        "| what | goal | came out | |",
        "|---|---|---|---|",
        _goal("sick trainings cured or better with the advice", "at least 70 %", good, len(sick), 0.7, least=True),
        _goal("sick trainings worse with it", "at most 5 %", worse, len(sick), 0.05),
        _goal("healthy trainings with a false warning worse with it", "none", hurt, len(healthy), 0.0),
        _goal("of these, such to which nothing was done", "none", hurt_untouched, len(untouched), 0.0),
    ]
    left = (
        f"Followed so far: {len(sick)} of the {to_try} sick trainings that are advised a setting "
        f"({'; '.join(halves)} did better), and {len(healthy)} of {to_hurt} healthy ones. In {silent} more sick "
        "trainings no cure is known: no finding advises a setting."
    )
    return "\n".join(rows) + "\n\n" + left


def _goal(what: str, goal: str, part: int, whole: int, bound: float, *, least: bool = False) -> str:
    share = part / whole if whole else None
    met = "–" if share is None else "met" if (share >= bound if least else share <= bound) else "**missed**"
    return f"| {what} | {goal} | {'–' if share is None else f'{share:.0%} ({part} of {whole})'} | {met} |"


def _by_advice(sick: Sequence[tuple[Pair, Outcome]]) -> str:
    rows = ["| finding | advises | helped | worse |", "|---|---|---|---|"]
    for (rule, key), (helped, worse, tried) in sorted(followed(sick).items()):
        rows.append(f"| `{rule}` | `{key}` | {helped} of {tried} | {worse or ''} |")
    return "\n".join(rows)


def _by_construction(pairs: Sequence[Pair], outcomes: dict[tuple[str, str, int], Outcome]) -> str:
    words: tuple[Word, ...] = ("cured", "better", "no difference", "worse", "refused")
    rows = [
        f"| construction | task | first advice | {' | '.join(words)} | none known | not yet |",
        f"|---|---|---|{'---|' * (len(words) + 2)}",
    ]
    for key in dict.fromkeys(it.name[:2] for it in pairs):
        of = [it for it in pairs if it.name[:2] == key]
        counts = Counter(outcomes[it.name].word for it in of if it.name in outcomes)
        said = Counter(f"{it.finding.rule}: {' '.join(it.finding.advice_set)}" for it in of if it.finding is not None)
        advice = f"`{said.most_common(1)[0][0]}`" if said else "–"
        silent = sum(it.finding is None for it in of)
        cells = [str(number or "") for number in (*(counts[word] for word in words), silent)]
        left = len(of) - silent - sum(counts.values())
        rows.append(f"| {key[0]} | {key[1]} | {advice} | {' | '.join(cells)} | {left or ''} |")
    return "\n".join(rows)


def _pairs(outcomes: Sequence[Outcome]) -> str:
    if not outcomes:
        return "None yet."
    rows = [
        "| construction | task | seed | finding | advice | control | advised | twin | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for it in sorted(outcomes, key=lambda it: (it.construction, it.task, it.seed)):
        figures = " | ".join("–" if value is None else f"{value:.4g}" for value in (it.control, it.advised, it.twin))
        trial = f", tried first: {it.trial}" if it.trial else ""
        what = f"{it.construction} | {it.task} | {it.seed} | {it.rule} | `{' '.join(it.advice)}`{trial}"
        rows.append(f"| {what} | {figures} | {it.word} |")
    return "\n".join(rows)


def _change(pair: Pair) -> Change:
    found = pair.finding
    assert found is not None
    return evidence_key(found.rule, found.advice, found.advice_set[0])
