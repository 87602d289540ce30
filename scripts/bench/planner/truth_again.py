"""The sets on which the estimates at the hinge are judged, drawn by a seed of their own.

The kinds are those of the other files but the first, each once, with sizes, penalties and labels
of their own, and made sets of the first file's kinds; the real ones no other file has. They were
drawn on 2026-11-28, before the estimates were changed, and nothing was fitted to them.
"""

from __future__ import annotations

from dataclasses import replace

import truth_blind
import truth_last
import truth_sealed
import truth_unseen
from truth_data import Set, of_statsmodels, shapes
from truth_drawn import drawn
from truth_last import colours, of_flights
from truth_once import hours
from truth_sealed import photograph

SEED = 20_261_128
REAL = (
    Set("hours-24", lambda: hours(24), 1e-3),
    Set("photo-flower-10", lambda: photograph("flower.jpg", 10, 5)),
    Set("photo-china-9", lambda: photograph("china.jpg", 9, 6), 1e-5),
    Set("colours-flower-5", lambda: colours("flower.jpg", 5, 4)),
    Set("airports-3", lambda: of_flights("airports", ["lat", "lon", "tz"], "alt", 3), 1e-4),
    Set("anes96-2", lambda: of_statsmodels("anes96", 2), 1e-4),
)


def again() -> list[Set]:
    """The sets."""
    kinds = truth_unseen.DENSE + truth_sealed.DENSE + truth_last.DENSE + truth_blind.DENSE
    found = drawn(SEED, len(kinds), 0, kinds, truth_sealed.tags)
    sparse = truth_unseen.fields, truth_sealed.tags, truth_last.baskets, truth_blind.words
    for number, make in enumerate(sparse):
        found += drawn(SEED + 1 + number, 0, 1, kinds, make)
    found += shapes(seed=28, first=2800, dense=10, few=4)
    return [replace(one, name=f"{one.name}-again") for one in found] + list(REAL)
