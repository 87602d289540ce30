"""Thread budget, shares of the host's cores, and programs of scheduled updates.

>>> from tuskml.schedule import Dynamic, Program, Static
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuskml.schedule.programs.priority import Correlations, Prioritised
    from tuskml.schedule.programs.program import Dynamic, Program, Static, ranges

__all__ = ["Correlations", "Dynamic", "Prioritised", "Program", "Static", "ranges"]

# Imported when they are first used: the budget alone is needed almost everywhere.
_HOMES = {
    "Correlations": "priority",
    "Dynamic": "program",
    "Prioritised": "priority",
    "Program": "program",
    "Static": "program",
    "ranges": "program",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tuskml.schedule' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"tuskml.schedule.programs.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
