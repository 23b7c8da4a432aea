"""Details of one run: from what it was launched, a fact a line, and the PPO settings that it really trains with.

The settings are read back from its model, not from what was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mission_tui.cli.tables.table import Table
from mission_tui.fleet.specs.spec import part_words
from mission_tui.fleet.text import clean
from mission_tui.present.numbers import DASH

if TYPE_CHECKING:
    from mission_tui.ipc.replies import DetailsReply


_CHARACTERS = 20_000
SECTIONS = ("env", "ppo", "run", "model")


def provenance_lines(details: DetailsReply) -> Iterator[str]:
    """The run's name, and below it what is recorded; that nothing is, where nothing is."""
    yield details.view.name
    rows = list(provenance_rows(details))
    width = max(len(what) for what, _ in rows)
    for what, value in rows:
        yield f"  {what:<{width}}  {clean(value, _CHARACTERS)}"


def provenance_rows(details: DetailsReply) -> Iterator[tuple[str, str]]:
    """Name and value of each fact that is recorded; that nothing is, where nothing is."""
    known = details.provenance
    if known is None:
        yield "provenance", "not recorded (yet)"
        return
    yield "command", known.command or "not known"
    for repository in known.repositories:
        name = f"code of {clean(repository.name)}" if repository.name else "code"
        untracked = f", {repository.untracked} untracked" if repository.untracked else ""
        diff = f", changes in {repository.diff_file}" if repository.diff_file else ""
        commit = repository.commit or "no commit"
        yield name, f"{commit}, {repository.changed} changed files{untracked}{diff} ({repository.path})"
    yield "folder", known.cwd
    yield "Python", f"{known.python_version} ({known.python})"
    yield from known.machine.items()
    if known.loaded is not None:
        yield "mission-tui", known.loaded.package
        for name, module in known.loaded.modules.items():
            yield f"loaded {clean(name, 80)}", f"{module.file} (sha256 {module.sha256[:12]})"
    yield "packages", " ".join(f"{name}=={version}" for name, version in known.packages.items())


def settings_table(details: DetailsReply) -> Table:
    """What the trainer recorded as effective, section by section as in `effective.toml`; no rows before it did."""
    reasons = _flat("", details.effective.get("reasons", {}))
    table = Table(("setting", "value", "why"))
    for section in SECTIONS:
        for key, value in _flat(f"{section}.", details.effective.get(section, {})).items():
            table.add(key, value, reasons.get(key, reasons.get(key.partition(".")[2], "")))
    return table


def _flat(prefix: str, values: dict[str, Any]) -> dict[str, str]:
    """Dotted keys and printed values; a table inside a table is one more dotted level."""
    flat: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(f"{prefix}{key}.", value)
        else:
            text = (
                ", ".join(part_words(item) or str(item) for item in value)
                if isinstance(value, list | tuple)
                else str(value)
            )
            flat[f"{prefix}{key}"] = text or DASH
    return flat
