"""Thread budget, shares of the host's cores, and programs of scheduled updates.

>>> from tuskml.schedule import Dynamic, Program, Static
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuskml.schedule.programs.correlations import Correlations
    from tuskml.schedule.programs.dynamic import Dynamic
    from tuskml.schedule.programs.priority import Prioritised
    from tuskml.schedule.programs.program import Program
    from tuskml.schedule.programs.rotation import ranges
    from tuskml.schedule.programs.static import Static

__all__ = ["Correlations", "Dynamic", "Prioritised", "Program", "Static", "ranges"]

# Imported when they are first used: the budget alone is needed almost everywhere.
_HOMES = {
    "Correlations": "correlations",
    "Dynamic": "dynamic",
    "Prioritised": "priority",
    "Program": "program",
    "Static": "static",
    "ranges": "rotation",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tuskml.schedule' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"tuskml.schedule.programs.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
