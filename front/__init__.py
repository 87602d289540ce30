"""tuskml: machine learning inside the database, by SQL aggregates.

>>> import tuskml
>>> con = tuskml.connect()
>>> con.execute("SELECT (train_model('linear', 2 * x, [x])).coef FROM range(9) t(x)").fetchone()
([2.0],)
"""

from tuskml.by_group import Models
from tuskml.connection import connect, load
from tuskml.errors import (
    DataError,
    ExtensionError,
    Interrupted,
    OperatorError,
    OptionError,
    TuskError,
)
from tuskml.groups.last_training import last_training
from tuskml.model import Model
from tuskml.prediction import evaluate, predict
from tuskml.progress import progress
from tuskml.training import train
from tuskml.udas.kernels import cancel
from tuskml.udas.own_operators import (
    register_algorithm,
    register_operator,
    unregister_algorithm,
    unregister_operator,
)
from tuskml.udas.own_tasks import register_task, unregister_task
from tuskml.version import VERSION as __version__

__all__ = [
    "DataError",
    "ExtensionError",
    "Interrupted",
    "Model",
    "Models",
    "OperatorError",
    "OptionError",
    "TuskError",
    "__version__",
    "cancel",
    "connect",
    "evaluate",
    "last_training",
    "load",
    "predict",
    "progress",
    "register_algorithm",
    "register_operator",
    "register_task",
    "train",
    "unregister_algorithm",
    "unregister_operator",
    "unregister_task",
]
