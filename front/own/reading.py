"""Models of other packages as models of tuskml: from a file, a text, or a fitted estimator."""

import math
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tuskml.errors import DataError
from tuskml.kernels.passes import GROUP
from tuskml.learners.classes import shortest
from tuskml.learners.models import FORMAT, Lists, Models, Names
from tuskml.model.model import Model
from tuskml.own import boosters
from tuskml.own.conversion import convert, family
from tuskml.own.converted import ModelFields

TEXTS = (b"tree", b"{")
"""The first bytes of texts of models."""


def model_from(source: Any) -> Model:
    """The model of another package, which predicts the same numbers as there.

    source: a fitted estimator or booster of LightGBM, XGBoost, CatBoost or scikit-learn; a text
    that LightGBM wrote, or JSON of XGBoost or CatBoost; an ONNX graph or its bytes; or the path
    of a file with one of these. Raises DataError for another model, or a damaged one.

    >>> from sklearn.linear_model import LinearRegression
    >>> round(model_from(LinearRegression().fit([[0], [1]], [1, 3])).intercept)
    1
    """
    if isinstance(source, PathLike) or (isinstance(source, str) and is_path(source)):
        source = content_of(Path(source))
    if isinstance(source, bytes) and source.lstrip().startswith(TEXTS):
        source = source.decode(errors="replace")
    if isinstance(source, str):
        return model_of(boosters.of_text(source))
    if isinstance(source, bytes) or type(source).__name__ == "ModelProto":
        return Model.from_onnx(source)
    return source if isinstance(source, Model) else of_estimator(source)


def is_path(text: str) -> bool:
    """Returns whether a text is the path of a file, as a single line that is no JSON is."""
    return "\n" not in text and not text.lstrip().startswith("{")


def content_of(path: Path) -> bytes:
    """The bytes of a file. Raises DataError if it cannot be read."""
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise DataError(f"{str(path)[:200]!r} is no file that can be read ({error})") from error


def of_estimator(given: Any) -> Model:
    """The model of a fitted estimator, with its names of features and its classes."""
    try:
        found = convert(given)
    except AttributeError as error:
        raise DataError(
            f"the {type(given).__name__} is not fitted ({error}), expected one after fit"
        ) from error
    names = tuple(map(str, getattr(given, "feature_names_in_", ())))
    labels = np.asarray(getattr(given, "classes_", ())).tolist()
    more: dict[str, Any] = {"classes": tuple(labels)} if found.classifies and labels else {}
    if not found.features and len(names) == found.n_features:
        more["features"] = names
    origin = found.origin or f"a {type(given).__name__} of {family(given)}"
    return model_of(replace(found, origin=origin, **more))


def model_of(found: ModelFields) -> Model:
    """A model. Raises DataError if no prediction could use it."""
    made = Model(**fields(found))
    made.payload  # noqa: B018, it raises
    return made


def fields(found: ModelFields) -> dict[str, Any]:
    """The fields of a model."""
    several = math.isnan(found.intercept)
    trees = {"trees": found.iterations} if found.task == "gbdt" else {}
    return {
        "task": found.task,
        "coef": found.coef.tolist(),
        "intercept": None if several else found.intercept,
        "std_err": None,
        **class_fields(found),
        "n_rows": found.n_rows,
        "n_skipped": 0,
        "n_features": found.n_features,
        "loss": math.nan,
        "history": None,
        "iterations": found.iterations,
        "converged": True,
        "status": "ok",
        "plan": f"read from {found.origin}",
        "seconds": 0.0,
        "options": {"tuskml": FORMAT} | found.options | trees,
        "store": None,
        "features": found.features if len(found.features) == found.n_features else (),
        "preparation": found.preparation,
    }


def class_fields(found: ModelFields) -> dict[str, Any]:
    """The fields `classes` and `class_names`. Labels that are no numbers are known by name."""
    if not found.classifies:
        return {"classes": None, "class_names": None}
    n = margins_of(found) if math.isnan(found.intercept) else 2
    labels: Sequence[Any] = found.classes or range(n)
    if len(labels) != n:
        raise DataError(f"the model has {len(labels)} labels of {n} classes, expected as many")
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in labels)
    if numbers and list(labels) == sorted(set(labels)):
        values = [float(one) for one in labels]
        return {"classes": values, "class_names": [shortest(one) for one in values]}
    names = [str(one).lower() if isinstance(one, bool) else str(one) for one in labels]
    return {"classes": [float(k) for k in range(n)], "class_names": names}


def margins_of(found: ModelFields) -> int:
    """The margins of a model of several classes."""
    if found.task == "gbdt":
        return int(found.coef[2])
    if found.classes:
        return len(found.classes)
    return len(found.coef) // (found.n_features + 1)


def lightgbm_fields(text: str) -> dict[str, Any]:
    """The fields of the model that is LightGBM's text."""
    return fields(boosters.of_lightgbm(text))


def models_from(text: str) -> Models:
    """The model of a text as the trainer emits it."""
    found = model_of(boosters.of_text(text))
    lists = {"coef": found.coef, "classes": found.classes}
    return Models.build(
        np.zeros(1, GROUP),
        found.task,
        **{name: Lists.of_parts([np.array(given or [])]) for name, given in lists.items()},
        **{name: np.full(1, getattr(found, name)) for name in COUNTS},
        intercept=np.full(1, math.nan if found.intercept is None else found.intercept),
        loss=np.full(1, math.nan),
        converged=np.ones(1, np.uint8),
        status=found.status,
        plan=found.plan,
        options=found.options_text,
        features=Names.same(found.features or None, 1),
        class_names=Names.same(tuple(found.class_names) if found.class_names else None, 1),
        **({} if found.preparation is None else {"preparation": found.preparation}),
    )


COUNTS = ("n_rows", "n_skipped", "n_features", "iterations")
"""Fields that are whole numbers."""
