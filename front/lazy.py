"""Functions that are imported when they are first called, by their short names.

The folders of this package are floors, and a floor imports those below it only. Two things below
reach up: methods of a model that write other tools' files or draw figures, and trainings and
statements that a cluster may take over. They name the function here.
"""

import importlib
from typing import Any

HOMES = {
    "read_lightgbm": "own.reading.lightgbm_fields",
    "write_lightgbm": "formats.lightgbm_write.write",
    "read_onnx": "formats.onnx_reading.reading.fields",
    "plot_convergence": "plots.trainings.plot_convergence",
    "plot_coefficients": "plots.trainings.plot_coefficients",
    "train_clustered": "cluster.training.train_clustered",
    "train_statement": "cluster.table_form.statement.train_statement",
}


def lazy_function(name: str) -> Any:
    """The function of a floor above that has this name in `HOMES`."""
    module, _, function = HOMES[name].rpartition(".")
    return getattr(importlib.import_module(f"tuskml.{module}"), function)
