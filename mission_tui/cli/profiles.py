"""Laying a host profile over a preset: which one is meant, whether it holds here, and the sentence that says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from mission_tui.fleet.specs.schema import Place

if TYPE_CHECKING:
    from mission_tui.fleet.specs.spec import Spec


Again = Callable[[tuple[Place, Mapping[str, dict[str, Any]]]], "Spec"]


def with_profile(spec: Spec, asked: str, preset: str, folder: Path, again: Again) -> Spec:
    """`spec` as the profile `asked` ("auto", or the path of a file) makes it, and what is to be said about it.

    `auto` is this machine's profile of `preset` in `folder`; one of another machine or for another task is passed over.
    `again` resolves the preset with settings laid over it. Raises `PresetError` for a file that cannot be used.
    """
    from mission_tui.fleet.tuning.profile import suits
    from mission_tui.records.tuning_files import (
        host_fingerprint,
        load_profile,
        other_profile,
        profile_path,
        versions_here,
    )

    host = host_fingerprint()
    path: Path | None = Path(asked)
    if asked == "auto":
        path = profile_path(folder, preset, host["host"])
        path = path if path.exists() else other_profile(folder, preset)
    if path is None:
        said = f"there is no host profile of {preset} yet: `mission-tui tune {preset}` writes one"
        return structs.replace(spec, profile=said)
    profile = load_profile(path)
    fit = suits(profile, spec, host, versions_here())
    notes = " and ".join(fit.notes)
    if fit.elsewhere and asked == "auto":
        said = f"host profile {path.name} {notes}, so it is not used: `mission-tui tune {preset}` writes another"
        return structs.replace(spec, profile=said)
    if not profile.settings:
        said = f"host profile {path.name} sets nothing: nothing was surely better than the preset's own settings"
    else:
        spec = again((Place(str(path)), profile.settings))
        said = f"host profile {path.name} sets {profile.words}"
    return structs.replace(spec, profile=f"{said}; it {notes}" if notes else said)
