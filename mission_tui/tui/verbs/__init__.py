"""What keys do, by subject: each verb is a coroutine that gets the context and the chosen runs."""

from __future__ import annotations

from collections.abc import Mapping

from mission_tui.tui.verbs import acts, launch, looking, palette
from mission_tui.tui.verbs.acts import Verb

__all__ = ["VERBS"]

VERBS: Mapping[str, Verb] = {
    **acts.VERBS,
    **launch.VERBS,
    **looking.VERBS,
    **palette.VERBS,
}
"""By action name; what `app.do(name)` carries out."""
