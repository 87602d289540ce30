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
    OptionError,
    TuskError,
)
from tuskml.groups.counters import last_training
from tuskml.model import Model
from tuskml.prediction import evaluate, predict
from tuskml.progress import progress
from tuskml.training import train
from tuskml.udas.kernels import cancel
from tuskml.version import VERSION as __version__

__all__ = [
    "DataError",
    "ExtensionError",
    "Interrupted",
    "Model",
    "Models",
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
    "train",
]
