"""A sweep of `bench`: every combination of a preset's settings that somebody named, and what their speeds say.

What a launch would refuse is left out and said. Each combination is held against the preset's own settings, all of
them at once; the fastest becomes a host profile where it is certainly faster, and all of its settings may stand in one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.specs.assignment import alternatives, expand
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.sizes import WITH_WORKERS
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.timed_runs import MedianSpeed, Ratio, Side, incomparable, noise_of, pace_of, ratios_of
from mission_tui.fleet.tuning.profile import SETTABLE, HostProfile, settings_of, task_of
from mission_tui.fleet.tuning.tune_state import Candidate, Refused, label_of

MOST = 25
"""Each with the preset's own settings beside it; a minute for each of three rounds makes more than an hour of these."""

_OWN = ("run.seed", "run.total_timesteps", "run.duration_s")


class SweepPlan(Struct, frozen=True):
    """What is to be timed, the preset's own settings first, and what is not. `keys` were swept; `notes` are said."""

    entrants: tuple[Candidate, ...]
    refused: tuple[Refused, ...]
    keys: tuple[str, ...]
    notes: tuple[str, ...]


class SweepRow(Struct, frozen=True):
    """One combination; `ratio` is over the preset's own settings, None for those. `why` it was left out."""

    label: str
    words: tuple[str, ...]
    side: Side | None = None
    pace: MedianSpeed | None = None
    ratio: Ratio | None = None
    why: str = ""


class SweepResult(Struct, frozen=True):
    """`rows` as they were asked for, the preset's own first; `best` is the place of the fastest, which `better` says is
    certainly faster than the preset's own. `profile` None: none can hold these settings.
    """

    rows: tuple[SweepRow, ...]
    best: int
    better: bool
    sentence: str
    notes: tuple[str, ...]
    profile: HostProfile | None


def plan_sweep(own: Spec, sweeps: Sequence[str], given: Sequence[str] = ()) -> SweepPlan:
    """Every combination of the `--sweep` words over `own`, which `--set` words `given` are part of already.

    Workers that are swept are also used: `env.vec` becomes `workers` unless somebody said another. Raises `UsageError`
    for words that are none, for what a timed run sets itself, and where nothing is left to be timed.
    """
    keys = tuple(dict.fromkeys(word.partition("=")[0].strip() for word in sweeps))
    for word in sweeps:
        key, equals, values = word.partition("=")
        if not equals or not all(each.strip() for each in alternatives(values)):
            raise UsageError(f"--sweep {word[:60]!r} is not KEY=VALUE,VALUE, such as env.n_envs=4,8,16")
        if key.strip() in _OWN:
            raise UsageError(f"--sweep {key.strip()}: bench sets that itself; sweep what a speed depends on")
    said = {*keys, *(word.partition("=")[0].strip() for word in given)}
    use_workers = "env.n_workers" in keys and "env.vec" not in said and own.env.vec not in WITH_WORKERS
    entrants, refused = [Candidate((), own)], list[Refused]()
    for combination in expand(sweeps):
        words = tuple(f"{it.key}={'none' if it.value is None else it.value.text}" for it in combination)
        if use_workers and "env.n_workers=none" not in words:
            words = ("env.vec=workers", *words)
        try:
            spec = change(own, words)
        except MissionError as error:
            refused.append(Refused(words, str(error).replace("--set ", "--sweep ", 1)))
            continue
        if all(spec != each.spec for each in entrants):
            entrants.append(Candidate(words, spec))
    if len(entrants) == 1:
        why = "; ".join(dict.fromkeys(each.why for each in refused)) or "they are the preset's own settings"
        raise UsageError(f"--sweep leaves nothing to compare: {why}")
    if len(entrants) - 1 > MOST:
        raise UsageError(
            f"--sweep makes {len(entrants) - 1} combinations; name at most {MOST}, or fewer values of each"
        )
    return SweepPlan(tuple(entrants), tuple(refused), keys, tuple(_notes(keys, use_workers=use_workers)))


def _notes(keys: Sequence[str], *, use_workers: bool) -> list[str]:
    notes = []
    if use_workers:
        notes.append("env.n_workers is swept, so env.vec is 'workers' there; --set env.vec=... says another")
    if foreign := [key for key in keys if not _may_stand(key)]:
        notes.append(f"no host profile comes of it, because {', '.join(foreign)} changes what is learned")
    return notes


def _may_stand(key: str) -> bool:
    table, _, name = key.partition(".")
    return name in SETTABLE.get(table, ())


def sweep_result(
    plan: SweepPlan, sides: Sequence[Side], dropped: Mapping[int, str], host: Mapping[str, str], swept: str
) -> SweepResult:
    """What the measured `sides` say, those of the entrants that were not `dropped` (by place), in their order.

    `host` is the machine of a profile, `swept` the time, as people read it.
    """
    measured = dict(zip((at for at in range(len(plan.entrants)) if at not in dropped), sides, strict=True))
    ratios = dict(zip([*measured][1:], _against_own([*measured.values()]), strict=True))
    rows = [_row(each, measured.get(at), ratios.get(at), dropped.get(at, "")) for at, each in enumerate(plan.entrants)]
    rows += [SweepRow(label_of(each.words), each.words, why=each.why) for each in plan.refused]
    best = max(ratios, key=lambda at: ratios[at].ratio, default=0)
    better = best > 0 and ratios[best].verdict == "faster"
    if better:
        sentence = f"{rows[best].label} is the fastest, beside the preset's own settings {ratios[best].sentence}"
    elif best > 0:
        said = f"the fastest of the others, {rows[best].label}: {ratios[best].sentence}"
        sentence = f"nothing was certainly faster than the preset's own settings; {said}"
    else:
        sentence = "nothing but the preset's own settings could be timed"
    own = plan.entrants[0].spec
    profile = None
    if better and all(map(_may_stand, plan.keys)):
        settings = settings_of(own, plan.entrants[best].words)
        versions = measured[best].versions
        profile = HostProfile(
            preset=own.preset,
            tuned=swept,
            sentence=sentence,
            host=host,
            versions={name: versions[name] for name in ("mission_tui", "torch", "python") if name in versions},
            work=task_of(own),
            settings=settings,
            why={f"{table}.{name}": ratios[best].sentence for table, its in settings.items() for name in its},
        )
    notes = [*plan.notes]
    if others := _learning(rows):
        notes.append(others)
    return SweepResult(tuple(rows), best if better else 0, better, sentence, tuple(notes), profile)


def _against_own(sides: Sequence[Side]) -> tuple[Ratio, ...]:
    drifts = [noise_of(side.drifts) for side in sides]
    return ratios_of([side.rates for side in sides], noise=2.0 * sum(drifts) / len(drifts))


def _row(entrant: Candidate, side: Side | None, ratio: Ratio | None, why: str) -> SweepRow:
    pace = None if side is None else pace_of(side.rates)
    return SweepRow(entrant.label, entrant.words, side, pace, ratio, why)


def _learning(rows: Sequence[SweepRow]) -> str:
    """A sentence on the rows that do not learn what the preset does; empty where all do."""
    own = rows[0].side
    said = {
        row.label: sentences[0]
        for row in rows[1:]
        if own is not None and row.side is not None and (sentences := incomparable(row.side.work, own.work, {}, {}))
    }
    if not said:
        return ""
    first, *others = said
    which = f"{first}, and {len(others)} more rows" if others else first
    return f"not all learn what the preset's own settings do: {said[first]} ({which})"
