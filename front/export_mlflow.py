"""Models in MLflow's format, as JSON: nothing is pickled, and loading runs no stored code.

`pip install 'tuskml[mlflow]'` brings mlflow-skinny, which is enough to save, log, load and serve;
the whole of mlflow works as well.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tuskml.errors import DataError, TuskError, nearest, one_of
from tuskml.model.any_model import model_in
from tuskml.model.model import Model
from tuskml.model.scoring import Floats, answers, array_name, column_names, source_kinds
from tuskml.version import VERSION

FILE = "model.json"
KINDS = ("predict", "predict_proba", "predict_class", "predict_probas", "decision")


def save_model(model: Model, path: str | PathLike[str], **more: Any) -> None:
    """Saves a model, or a fitted estimator of one, to a new folder.

    more: as for `mlflow.pyfunc.save_model`.
    """
    pyfunc = mlflow_module("pyfunc")
    model = model_in(model)
    with write_temporary(model) as file:
        pyfunc.save_model(str(path), **arguments(model, file) | more)


def log_model(model: Model, name: str = "model", **more: Any) -> Any:
    """Logs a model to the active run; more: as for `mlflow.pyfunc.log_model`.

    Returns MLflow's ModelInfo, whose `model_uri` `mlflow.pyfunc.load_model` takes.
    """
    pyfunc = mlflow_module("pyfunc")
    model = model_in(model)
    with write_temporary(model) as file:
        return pyfunc.log_model(name=name, **arguments(model, file) | more)


def load_model(uri: str | PathLike[str]) -> Model:
    """The `tuskml.Model` of a folder or a URI such as `models:/delays/3`.

    Raises DataError if tuskml did not save it, or its file is damaged.
    """
    folder = Path(mlflow_module("artifacts").download_artifacts(str(uri)))
    file = folder / "data" / FILE
    if not file.is_file():
        raise DataError(f"{uri} holds no data/{FILE}: it was not saved by tuskml")
    return Model.from_json(file.read_bytes())


class ModelWrapper:
    """The model in the form that MLflow calls: rows in, predictions out."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def predict(self, rows: Any, params: dict[str, Any] | None = None) -> Floats | NDArray[Any]:
        """Returns predictions of shape (n,), or (n, K) for all classes; rows: a frame with the
        model's features, or an array of them.

        params: `kind` is one of KINDS, the methods of `tuskml.Model` of these names.
        """
        kind = (params or {}).get("kind", "predict")
        if kind not in KINDS:
            hint = nearest(str(kind), KINDS)
            raise DataError(f"kind is {kind!r}, expected {one_of(KINDS)}{hint}")
        found: Floats | NDArray[Any] = getattr(self.model, kind)(rows)
        return found


def _load_pyfunc(path: str) -> ModelWrapper:
    """Called by MLflow, which read this module's name in the folder's `MLmodel`."""
    file = Path(path)
    return ModelWrapper(Model.from_json((file / FILE if file.is_dir() else file).read_bytes()))


def mlflow_module(name: str) -> Any:
    """A module of mlflow. Raises TuskError if it is not installed."""
    import importlib

    try:
        return importlib.import_module(f"mlflow.{name}")
    except ImportError as error:
        raise TuskError(
            "MLflow's format needs mlflow: pip install 'tuskml[mlflow]', or mlflow itself"
        ) from error


@contextmanager
def write_temporary(model: Model) -> Iterator[Path]:
    """A file with the model, while the context lasts."""
    model.weights()  # refuses a model whose coefficients are in a store
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / FILE
        file.write_text(model.to_json())
        yield file


def arguments(model: Model, file: Path) -> dict[str, Any]:
    """The description of a model for MLflow."""
    about = {"task": model.task, "label": model.label, "tuskml": VERSION}
    return {
        "loader_module": "tuskml.export_mlflow",
        "data_path": str(file),
        "pip_requirements": [f"tuskml=={VERSION}", "pandas"],
        "signature": signature(model),
        "metadata": {"tuskml": {name: value for name, value in about.items() if value}},
    }


def signature(model: Model) -> Any:
    """A column per feature, or one column of arrays, or ids; the parameter `kind`."""
    types, models = mlflow_module("types"), mlflow_module("models")
    params = types.ParamSchema([types.ParamSpec("kind", "string", "predict")])
    kind = "string" if model.has_text_classes else "double"
    outputs = types.Schema([types.ColSpec(kind)])
    return models.ModelSignature(
        inputs=types.Schema(columns(types, model)), outputs=outputs, params=params
    )


def columns(types: Any, model: Model) -> list[Any]:
    """The columns of a frame that is served.

    A model that was trained on one array expression takes either the array or its items.
    MLflow refuses whole numbers as doubles, and booleans and pandas' categories as strings, so a
    column is of any type, and the model checks it.
    """
    whatever = types.schema.AnyType()
    if model.preparation is not None:
        dates = {
            column["column"]
            for column in json.loads(model.preparation)["columns"]
            if "part" in column
        }
        return [
            types.ColSpec("datetime" if name in dates else whatever, name)
            for name in source_kinds(model.preparation)
        ]
    if answers(model).factorizes:
        return [types.ColSpec("long", name) for name in model.features or ("user", "item")]
    names, array = column_names(model), array_name(model)
    if array is None or array in names:
        return [types.ColSpec(whatever, name) for name in names]
    arrays = types.schema.Array(types.DataType.double)
    return [
        types.ColSpec(arrays, array, required=False),
        *(types.ColSpec(whatever, name, required=False) for name in names),
    ]
