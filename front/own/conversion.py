"""Models of tuskml from fitted estimators, and what these themselves predict."""

import math
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tuskml.errors import DataError
from tuskml.model.model import Model
from tuskml.model.scoring import Floats
from tuskml.own import boosters, sklearn_models, torch_modules
from tuskml.own.converted import ModelFields

EXPECTED = (
    "expected an estimator of LightGBM, XGBoost or CatBoost, or one of scikit-learn that is a "
    "linear model, trees, boosted trees, a net of layers, or a pipeline of scalers before a "
    "linear model or net"
)
BOOSTERS = ("lightgbm", "xgboost", "catboost")
"""Packages of boosted trees."""


def family(of: Any) -> str:
    """The package of an estimator's class, or of one that it derives from; '' of others."""
    roots = [one.__module__.partition(".")[0] for one in type(of).__mro__]
    return next((one for one in (*BOOSTERS, "sklearn") if one in roots), "")


def reader_of(of: Any) -> Callable[[Any], ModelFields] | None:
    """The function for an estimator of scikit-learn; None for other kinds."""
    names = [one.__name__ for one in type(of).__mro__ if one.__module__.startswith("sklearn.")]
    return next(
        (sklearn_models.BY_CLASS[one] for one in names if one in sklearn_models.BY_CLASS), None
    )


def is_search(of: Any) -> bool:
    """Returns whether an estimator is a search over another one."""
    return family(of) == "sklearn" and hasattr(of, "estimator") and hasattr(of, "refit")


def refuse_unknown(of: Any) -> None:
    """Raises DataError for an estimator, fitted or not, that no model of tuskml can be made of."""
    if family(of) in BOOSTERS:
        return
    if is_search(of):
        refuse_unknown(of.estimator)
        return
    if type(of).__name__ == "Pipeline":
        steps, last = sklearn_models.steps_in(of)
        for step in steps:
            if type(step).__name__ not in sklearn_models.AFFINE:
                raise DataError(f"a step of the pipeline is {type(step).__name__}, {EXPECTED}")
        if not steps:
            refuse_unknown(last)
        elif reader_of(last) not in sklearn_models.OF_STEPS:
            raise DataError(f"the pipeline ends with {type(last).__name__}, {EXPECTED}")
    elif reader_of(of) is None:
        raise DataError(f"the estimator is {type(of).__name__}, {EXPECTED}")


def convert(of: Any) -> ModelFields:
    """The model of a fitted estimator, of another package's text, of an ONNX graph, or of a Model.

    Raises DataError for others.
    """
    return next(read for fits, read in READERS if fits(of))(of)


def of_sklearn(of: Any) -> ModelFields:
    """An estimator of scikit-learn. Raises DataError for other objects."""
    refuse_unknown(of)
    read = reader_of(of)
    assert read is not None
    return read(of)


def of_pipeline(of: Any) -> ModelFields:
    """The last step of a pipeline, of the features before the others."""
    refuse_unknown(of)
    steps, last = sklearn_models.steps_in(of)
    found = convert(last)
    return sklearn_models.fold_steps(found, steps, int(of.n_features_in_)) if steps else found


def of_model(of: Model) -> ModelFields:
    """The parts of a model that determine its predictions."""
    if of.coef is None or of.preparation is not None:
        raise DataError(
            "the model has no coefficients, or features with names, expected a model of lists"
        )
    intercept = math.nan if of.intercept is None else of.intercept
    options = {name: value for name, value in of.options.items() if name != "tuskml"}
    coef = np.array(of.coef, np.float64)
    return ModelFields(of.task, coef, intercept, of.n_features, options, of.iterations)


def of_xgboost(of: Any) -> ModelFields:
    """The booster of an estimator, up to its best iteration."""
    missing = getattr(of, "missing", math.nan)
    if missing is not None and not (isinstance(missing, float) and math.isnan(missing)):
        raise DataError(f"parameter 'missing' is {missing}, expected NaN, which NULL is in rows")
    booster = of.get_booster() if hasattr(of, "get_booster") else of
    return boosters.of_json(bytes(booster.save_raw("json")))


def of_catboost(of: Any) -> ModelFields:
    """The trees of an estimator or a model. Raises AttributeError before it is fitted."""
    if not of.is_fitted():
        raise AttributeError("it has no trees")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        of.save_model(str(path), format="json")
        return boosters.of_json(path.read_bytes())


READERS: tuple[tuple[Callable[[Any], bool], Callable[[Any], ModelFields]], ...] = (
    (lambda of: isinstance(of, Model), of_model),
    (lambda of: isinstance(of, str), boosters.of_text),
    (
        lambda of: isinstance(of, bytes) or type(of).__name__ == "ModelProto",
        lambda of: of_model(Model.from_onnx(of)),
    ),
    (lambda of: isinstance(of, torch_modules.TrainedModule), torch_modules.convert),
    (is_search, lambda of: convert(of.best_estimator_)),
    (
        lambda of: family(of) == "lightgbm",
        lambda of: boosters.of_lightgbm(getattr(of, "booster_", of).model_to_string()),
    ),
    (lambda of: family(of) == "xgboost", of_xgboost),
    (lambda of: family(of) == "catboost", of_catboost),
    (lambda of: type(of).__name__ == "Pipeline", of_pipeline),
    (lambda of: True, of_sklearn),
)
"""What to read by which function."""


def predictions(of: Any, x: Floats, given: Callable[[Any, Floats], Any] | None) -> Floats | None:
    """What an estimator predicts of rows: numbers or classes (n,), or probabilities (n, classes);
    None of what predicts nothing itself. given: the user's own function."""
    if given is not None:
        return np.asarray(given(of, x), np.float64)
    if isinstance(of, Model | str | bytes) or type(of).__name__ == "ModelProto":
        return None
    if hasattr(of, "predict_proba"):
        return np.asarray(of.predict_proba(x), np.float64)
    if type(of).__name__ == "Booster":
        found = of.predict(as_matrix(of, x))
        return np.asarray(found, np.float64)
    return np.asarray(of.predict(x), np.float64)


def as_matrix(booster: Any, x: Floats) -> Any:
    """Rows as a booster reads them."""
    if family(booster) == "lightgbm":
        return x
    return import_module("xgboost").DMatrix(x)
