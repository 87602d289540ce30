"""tuskml: machine learning inside the database, by SQL aggregates.

>>> import tuskml
>>> con = tuskml.connect()
>>> con.execute("SELECT (train_model('linear', 2 * x, [x])).coef FROM range(9) t(x)").fetchone()
([2.0],)
"""

import importlib
from typing import TYPE_CHECKING, Any

from tuskml.version import VERSION as __version__

if TYPE_CHECKING:
    from tuskml.api.prediction import evaluate, predict
    from tuskml.api.progress_bar import progress
    from tuskml.api.training import train
    from tuskml.cluster.shards.splitting import split
    from tuskml.databases.connection import connect, load
    from tuskml.errors import (
        ClusterError,
        ClusterWarning,
        DataError,
        ExtensionError,
        Interrupted,
        OperatorError,
        OptionError,
        TuskError,
    )
    from tuskml.formats.lightgbm_write import export_lightgbm
    from tuskml.formats.plain_sql import model_to_sql
    from tuskml.groups.execution.executor import activity
    from tuskml.groups.programs import run_program
    from tuskml.groups.records import last_training
    from tuskml.kernels.passes import cancel
    from tuskml.learners.linear.own.operators import (
        register_algorithm,
        register_operator,
        unregister_algorithm,
        unregister_operator,
    )
    from tuskml.learners.linear.own.tasks import register_task, unregister_task
    from tuskml.model.group_models import Models
    from tuskml.model.model import Model
    from tuskml.own.reading import model_from
    from tuskml.own.registering import register_learner, unregister_learner

__all__ = [
    "ClusterError",
    "ClusterWarning",
    "DataError",
    "ExtensionError",
    "Interrupted",
    "Model",
    "Models",
    "OperatorError",
    "OptionError",
    "TuskError",
    "__version__",
    "activity",
    "cancel",
    "connect",
    "evaluate",
    "export_lightgbm",
    "last_training",
    "load",
    "model_from",
    "model_to_sql",
    "predict",
    "progress",
    "register_algorithm",
    "register_learner",
    "register_operator",
    "register_task",
    "run_program",
    "split",
    "train",
    "unregister_algorithm",
    "unregister_learner",
    "unregister_operator",
    "unregister_task",
]

# A name is imported when it is first used: a PostgreSQL server, which needs the trainer alone,
# does not load DuckDB, and the command line starts at once.
_HOMES = {
    "model.group_models": ("Models",),
    "databases.connection": ("connect", "load"),
    "errors": (
        "ClusterError",
        "ClusterWarning",
        "DataError",
        "ExtensionError",
        "Interrupted",
        "OperatorError",
        "OptionError",
        "TuskError",
    ),
    "groups.execution.executor": ("activity",),
    "groups.records": ("last_training",),
    "groups.programs": ("run_program",),
    "kernels.passes": ("cancel",),
    "learners.linear.own.operators": (
        "register_algorithm",
        "register_operator",
        "unregister_algorithm",
        "unregister_operator",
    ),
    "learners.linear.own.tasks": ("register_task", "unregister_task"),
    "formats.lightgbm_write": ("export_lightgbm",),
    "formats.plain_sql": ("model_to_sql",),
    "model.model": ("Model",),
    "own.reading": ("model_from",),
    "own.registering": ("register_learner", "unregister_learner"),
    "api.prediction": ("evaluate", "predict"),
    "cluster.shards.splitting": ("split",),
    "api.progress_bar": ("progress",),
    "api.training": ("train",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def _refuse_subinterpreter() -> None:
    """DuckDB, NumPy and callbacks from C live in the main interpreter alone."""
    import ctypes

    python = ctypes.pythonapi
    python.PyInterpreterState_Get.restype = ctypes.c_void_p
    number = python.PyInterpreterState_GetID
    number.restype, number.argtypes = ctypes.c_int64, [ctypes.c_void_p]
    if number(python.PyInterpreterState_Get()):
        from tuskml.errors import ExtensionError

        raise ExtensionError(
            "tuskml cannot be used in a subinterpreter: import it in the main interpreter, or "
            "start a process (under mod_wsgi: WSGIApplicationGroup %{GLOBAL})"
        )


_refuse_subinterpreter()


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tuskml' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"tuskml.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
