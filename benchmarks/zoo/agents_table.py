"""The table of the zoo's published agents, as a section of `docs/zoo.md` that can be written without the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from mission_tui.fleet.specs.env_ids import package_of

__all__ = ["Agent", "Returns", "apart", "section", "with_section"]

TITLE = "## Published agents, played here"
NEAR = 2.0
"""Standard errors of the difference within which two means count as the same."""
PREFACE = """\
Written by `make zoo-agents`; not by hand. Each PPO agent of DLR-RM/rl-trained-agents (MIT; figures only, none of its
files is here) is imported by `mission-tui import-run FOLDER --trust` and played by `mission-tui evaluate`, with its own
`vecnormalize.pkl` and the settings that its `config.yml` and `args.yml` say. Where the refusal of an import named what
to set instead, that was done; it stands in the table. *Published* is the zoo's table of results: one agent played for
150,000 steps."""
METHOD = f"""\
Returns are mean ± standard deviation over the episodes. *Same* says by how many standard errors of the difference the
two means are apart; up to {NEAR:g} counts as the same, which one line in twenty misses by chance alone. Where it is
more, the same weights played the same episodes by Stable-Baselines3's own `evaluate_policy`: what that comes to as well
is not ours. Simulators have changed since 2021, and a hundred episodes can be odd ones.

```
git clone https://github.com/DLR-RM/rl-trained-agents
make zoo-agents AGENTS=rl-trained-agents               # goes on where it was left
make zoo-agents AGENTS=rl-trained-agents SECONDS=600   # the same, for so long
mission-tui import-run rl-trained-agents/ppo/CartPole-v1_1 --trust
mission-tui evaluate @last --episodes 100
```

[recipes/rl-zoo.md](recipes/rl-zoo.md) says what else an import takes over, and what to do where it is refused."""
HEAD = "| task | id here | imported | published | here | same? |\n|---|---|---|---|---|---|"


class Returns(msgspec.Struct, frozen=True):
    """Mean and standard deviation over `episodes`; `source` where it is not the zoo's table."""

    mean: float
    std: float
    episodes: int
    source: str = ""

    def __str__(self) -> str:
        source = f", {self.source}" if self.source else ""
        return f"{self.mean:.1f} ± {self.std:.1f} ({self.episodes:,} episodes{source})"


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """One published agent: `settings` are the `--set` words it was imported with, `why` is why it was not played.
    `stock` is what Stable-Baselines3 alone came to with it here, asked where `here` is not what was published.
    """

    task: str
    env: str = ""
    settings: tuple[str, ...] = ()
    published: Returns | None = None
    here: Returns | None = None
    stock: Returns | None = None
    why: str = ""
    versions: dict[str, str] = {}

    @property
    def is_same(self) -> bool | None:
        """Whether the return here is the published one, as far as their errors let one tell."""
        if self.here is None or self.published is None:
            return None
        return abs(apart(self.here, self.published)) <= NEAR

    @property
    def verdict(self) -> str:
        """The last cell of its line."""
        if self.here is None or self.published is None:
            return "" if self.here is None else "nothing was published"
        far = apart(self.here, self.published)
        if self.stock is None:
            return f"{'yes' if self.is_same else '**no**'} ({far:+.1f})"
        with_us = apart(self.here, self.stock)
        agrees = f"so does SB3 alone: {self.stock}" if abs(with_us) <= NEAR else f"**SB3 alone: {self.stock}**"
        return f"**no** ({far:+.1f}); {agrees} ({with_us:+.1f} between us)"

    @property
    def said(self) -> str:
        """What became of it, in a line."""
        if self.here is None:
            return self.why
        return f"return {self.here}, published {self.published}: {self.verdict}"


def apart(here: Returns, there: Returns) -> float:
    """By how many standard errors of the difference the first mean is above the second."""
    error = math.hypot(*(it.std / math.sqrt(it.episodes) for it in (here, there)))
    difference = here.mean - there.mean
    return difference / error if error else math.copysign(math.inf, difference) if difference else 0.0


def section(agents: Sequence[Agent]) -> str:
    """The part of the page that tells of them."""
    if not agents:
        return ""
    played = [it for it in agents if it.here is not None]
    same = [it for it in played if it.is_same]
    as_stock = [it for it in played if it.stock and it.here and abs(apart(it.here, it.stock)) <= NEAR]
    count = f"{len(played)} of {len(agents)} were played; {len(same)} of these come to the published return."
    if others := len(played) - len(same):
        count += (
            f" With {len(as_stock)} of the other {others}, Stable-Baselines3 alone comes to the return here as well."
        )
    parts = [TITLE, PREFACE, count, "\n".join([HEAD, *map(_line, agents)]), METHOD, _versions(agents)]
    return "\n\n".join(parts) + "\n"


def with_section(page: str, said: str) -> str:
    """`page` with `said` in place of what it had of the agents, at its end."""
    before = page.partition(TITLE)[0].rstrip("\n")
    return "\n\n".join(part for part in (before, said) if part) if before else said


def _line(it: Agent) -> str:
    tried = next((word.partition("=")[2] for word in it.settings if word.startswith("env.id=")), it.task)
    how = "".join(f"; `--set {word}`" for word in it.settings if not word.startswith("env.id="))
    package = package_of(it.task)
    imported = f"yes{f', with {package}' if package else ''}{how}" if it.env else f"no{how}"
    here = f"not evaluated here: {it.why}" if it.here is None else str(it.here)
    cells = (it.task, it.env or tried, imported, str(it.published or ""), here, it.verdict)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _versions(agents: Sequence[Agent]) -> str:
    sets = list(dict.fromkeys(tuple(it.versions.items()) for it in agents if it.versions))
    return "Played with " + "; ".join(", ".join(f"{name} {value}" for name, value in each) for each in sets) + "."
