"""Phrases that the causes and advice of several rules share, always computed from the run's own settings: on its
learning rate, on the pressure of an update, and on the scale of its rewards; and the same advice for a training whose
settings are not ours to set.
"""

from __future__ import annotations

import math
import re

from msgspec.structs import replace

from mission_tui.fleet.health.rule import Explanation, Row
from mission_tui.fleet.health.settings import Settings
from mission_tui.fleet.specs.sb3_algorithms import OTHERS
from mission_tui.fleet.specs.sizes import EXTREME_RATE, REFERENCE_GRADIENT_STEPS, REFERENCE_LEARNING_RATE
from mission_tui.fleet.specs.spec import Schedule

PPO = "ppo"
"""The table in which every rule names a setting."""
ENVIRONMENT_FIRST = "look for what changed in the environment or its rewards"
NONE_KNOWN = "no setting is known to cure this"
COMPARE_FIRST = "the return has risen without that, so compare first"
LARGE_ERROR = 1.0
"""Values that miss by more than this have a loss above 1, which outweighs that of the policy."""


def learning_rate_of(row: Row | None, settings: Settings) -> float | None:
    """The learning rate of `row`'s update; what the settings start with when the row does not say."""
    return row.metrics.get("train/learning_rate", settings.starting_rate) if row else settings.starting_rate


def rounded(value: float) -> str:
    """Two digits for small numbers, whole ones from a hundred to a billion: no exponent for what a person compares."""
    if 99.5 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.2g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def lost_share(share: float) -> str:
    """How much of a gain is lost; of one that is gone and more, all."""
    return "all" if share >= 0.995 else f"{share:.0%}"


def pressure_of(settings: Settings, learning_rate: float | None) -> float | None:
    """Gradient steps per update x learning rate as a multiple of the reference's 16 x 2.5e-4 (source 004), which is
    PPO's; None of another algorithm.
    """
    if settings.algo != PPO or settings.gradient_steps is None or learning_rate is None:
        return None
    return settings.gradient_steps * learning_rate / (REFERENCE_GRADIENT_STEPS * REFERENCE_LEARNING_RATE)


def pressure_sentence(settings: Settings, learning_rate: float | None) -> str:
    """The update pressure in words, as far as it is known."""
    if settings.algo != PPO and learning_rate is not None:
        return f"a learning rate of {learning_rate:.3g}"
    pressure = pressure_of(settings, learning_rate)
    if pressure is not None and settings.gradient_steps is not None:
        return (
            f"{settings.gradient_steps:,} gradient steps x {learning_rate:.3g} per update is {rounded(pressure)} x "
            f"the reference ({REFERENCE_GRADIENT_STEPS} x {REFERENCE_LEARNING_RATE:g})"
        )
    if learning_rate is not None:
        beyond = f"; no published setting of PPO has {EXTREME_RATE:g} or more" if learning_rate >= EXTREME_RATE else ""
        return f"a learning rate of {learning_rate:.3g}, with an unknown number of gradient steps per update{beyond}"
    return "learning rate and gradient steps per update are not in this log"


def halved_learning_rate(settings: Settings, row: Row | None) -> tuple[str, ...]:
    """The assignment that halves the run's learning rate, schedule or number; none when it is not known."""
    rate = settings.learning_rate
    if isinstance(rate, Schedule):
        return (
            f'ppo.learning_rate={{ start = {rate.start / 2:.3g}, end = {rate.end / 2:.3g}, kind = "{rate.kind}" }}',
        )
    current = rate if rate is not None else learning_rate_of(row, settings)
    return (f"ppo.learning_rate={current / 2:.3g}",) if current and 0.0 < current <= 2.0 else ()


def _value_error_of(row: Row) -> float | None:
    """Root of the value loss: by how much values miss returns, in units of the rewards that are trained on."""
    loss = row.metrics.get("train/value_loss")
    return math.sqrt(loss) if loss is not None and 0.0 <= loss < math.inf else None


def is_large(row: Row, settings: Settings) -> bool:
    """Whether rewards are too large as they are: not known to be normalised, and values miss by more than a unit."""
    error = _value_error_of(row)
    return error is not None and error > LARGE_ERROR and settings.normalize_reward is not True


def reward_scale_sentence(row: Row, settings: Settings) -> str:
    """By how much values miss, and whether rewards are normalised; "" when neither is known."""
    error = _value_error_of(row)
    how = {True: "rewards are normalised", False: "rewards are not normalised", None: ""}[settings.normalize_reward]
    missed = f"values miss returns by about {rounded(error)} (root of the value loss)" if error is not None else ""
    return ", and ".join(part for part in (missed, how) if part)


def in_new_training(settings: Settings, *assignments: str) -> str:
    """How one like this begins anew with `assignments`, in brackets after the advice; "" where it is not ours."""
    return f" (`mission-tui clone RUN {' '.join(f'--set {it}' for it in assignments)}`)" if settings.ours else ""


def normalized_rewards(settings: Settings) -> tuple[str, ...]:
    """The assignment that normalises rewards and leaves observations as they are, since the policy knows no others;
    none when either is normalised, which a resume refuses, or when it is not known.
    """
    ours_to_add = settings.normalize_reward is False and not settings.normalize_obs
    return ("env.normalize={ obs = false, reward = true }",) if ours_to_add else ()


def normalise_anew(settings: Settings) -> str:
    """The same for where values would not learn another scale on the way."""
    how = in_new_training(settings, "env.normalize.reward=true" if settings.normalize_obs else "env.normalize=true")
    how = how or f" (in your script: {IN_SCRIPTS['env.normalize']})"
    return f"normalise rewards, in a new training{how}"


def compared_first(settings: Settings) -> str:
    """What to do before advice that a run may not need."""
    how = " (`mission-tui try RUN`)" if settings.ours else ""
    return f"{COMPARE_FIRST}{how}, and leave it where that hurts"


OTHER_NAMES = {
    "learning_rate": ("lr",),
    "n_steps": ("num_steps",),
    "n_epochs": ("update_epochs", "epochs"),
    "clip_range": ("clip_coef",),
    "ent_coef": ("entropy_coef",),
    "vf_coef": ("value_coef",),
}
"""What else scripts call SB3's settings: CleanRL's flags, and the usual short ones."""
IN_SCRIPTS = {"env.normalize": "VecNormalize(norm_obs=False, norm_reward=True) around the environments"}
"""Assignments that no script has a setting for, by how they begin."""
_PPO_TABLE = re.compile(r"\bppo\.(?=[a-z])")
_TABLE = re.compile(r"\b(?:ppo|env)\.(?=[a-z])")
_SCHEDULE = re.compile(r"start = ([^,]+), end = ([^,]+)")


def without_tables(text: str) -> str:
    """`text` with settings called as scripts call them: `gamma` and not ``ppo.gamma``."""
    return _TABLE.sub("", text)


def in_own_table(words: Explanation, settings: Settings) -> Explanation:
    """`words` with settings called as the run's algorithm calls them; what it has no setting for is not assigned."""
    if settings.algo == PPO:
        return words
    names, own = OTHERS[settings.algo].table.__struct_fields__, f"{settings.algo}."  # type: ignore[index]
    sentence, cause, advice = (_PPO_TABLE.sub(own, it) for it in (words.sentence, words.cause, words.advice))
    known = (it for it in words.advice_set if not it.startswith("ppo.") or it[4:].partition("=")[0] in names)
    kept = tuple(_PPO_TABLE.sub(own, it) for it in known)
    return replace(words, sentence=sentence, cause=cause, advice=advice, advice_set=kept)


def for_strangers(advice: str, assignments: tuple[str, ...], settings: Settings) -> str:
    """`advice` for a training that `--set` does not reach: by the flags of its own command, else in its script."""
    if not assignments:
        return advice
    flags: list[str] = []
    rest: list[str] = []
    for assignment in assignments:
        key, _, value = assignment.partition("=")
        name = key.rpartition(".")[2]
        flag = _flag_of(settings.command, (name, *OTHER_NAMES.get(name, ())))
        plain = value.lstrip("-").replace(".", "", 1).replace("e-", "", 1).isdigit()
        known = next((words for start, words in IN_SCRIPTS.items() if assignment.startswith(start)), "")
        if flag and plain:
            flags.append(f"{flag} {value}")
        elif schedule := _SCHEDULE.search(value):
            rest.append(f"{name} from {schedule[1]} to {schedule[2]}")
        else:
            rest.append(known or (f"{name} {value}" if plain else name))
    said = [f"run it with {' '.join(flags)}"] if flags else []
    said += [f"in your script: {', '.join(rest)}"] if rest else []
    return f"{advice} ({'; '.join(said)})"


def flag_value(command: tuple[str, ...], names: tuple[str, ...]) -> str:
    """What follows the flag of `command` that sets one of `names`; "" where it has none."""
    flag = _flag_of(command, names)
    for word, after in zip(command, (*command[1:], ""), strict=True):
        if flag and word.partition("=")[0] == flag:
            return word.partition("=")[2] if "=" in word else after
    return ""


def _flag_of(command: tuple[str, ...], names: tuple[str, ...]) -> str:
    """The flag of `command` that sets one of `names`; "" where it has none."""
    for word in command:
        flag = word.partition("=")[0]
        if flag.startswith("--") and flag[2:].replace("-", "_") in names:
            return flag
    return ""
