"""Whether the winner of a search is better than the preset itself, by runs with seeds that nothing was chosen by."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from msgspec import structs

from mission_tui.fleet.compare.ranking import whole_mean
from mission_tui.fleet.search.result import Confirmation, Says
from mission_tui.fleet.statistics.intervals import difference, finite


def confirmed(
    seeds: Sequence[int], winner: Sequence[float | None], default: Sequence[float | None], *, minimize: bool
) -> Confirmation:
    """What the fresh seeds say: the winner is better only where the whole interval of the difference says so."""
    bare = Confirmation(seeds=tuple(seeds), winner=tuple(winner), default=tuple(default))
    says: Says
    one, other = whole_mean(winner), whole_mean(default)
    known = finite(winner), finite(default)
    apart = statistics.fmean(known[0]) - statistics.fmean(known[1]) if all(known) else None
    if one is None or other is None or apart is None:
        return structs.replace(bare, says="cannot tell", difference=apart)
    ends = difference(one, other)
    if ends is None:  # every run of each came to the same
        better = (apart < 0.0) == minimize and apart != 0.0
        says = "no verdict" if apart == 0.0 else "better" if better else "worse"
        return structs.replace(bare, says=says, difference=apart)
    low, high = ends
    says = "no verdict" if low <= 0.0 <= high else "better" if (apart < 0.0) == minimize else "worse"
    return structs.replace(bare, says=says, difference=apart, low=low, high=high)
