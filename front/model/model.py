"""A trained model in Python: the fields of SQL's model value, and functions of them."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.lazy import lazy_function
from tuskml.learners.models import Lists, Models, Names, Strings
from tuskml.learners.topics.training import topics_of_payload
from tuskml.learners.trees.forest import as_bytes, trees_of_payload
from tuskml.model import card, dependence, explanation, scoring
from tuskml.model import file as model_file
from tuskml.model.explanation import Explanation, explain_rows
from tuskml.model.fields import Fields
from tuskml.model.scoring import Floats
from tuskml.model.summary import Summary, Term, summarise
from tuskml.udas.model_fields import MODEL_FIELDS

if TYPE_CHECKING:
    import onnx
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False)
class Model(Fields):
    """The result of `tuskml.train` for one group; the fields are those of SQL's model value.

    coef: one per feature, None if the model is in a store; of trees the numbers that
    `learners/trees/forest.py` describes, which SQL has in the payload; std_err: the intercept's
    first. With more than two classes both have the numbers of one class after another,
    the intercept's first, and intercept is None. classes: the labels in rising order, None for
    `linear`; class_names: the same as text; n_rows: rows used; n_skipped: rows with a NULL; loss:
    the objective at the result; history: the objective by iteration, at most 200 points; options:
    those in force, and the `counters` of trainings that have some.

    features: the names that option `feature_names` gave, or the columns or SQL expressions that
    Python trained the model on; label: likewise. Models that differ only in them are equal.
    preparation: what rows by name became, as JSON; trials: what a search tried.
    """

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> "Model":
        """The model value of a row, or as JSON; `options` and `trials` are JSON text there."""
        taken = {name: value[name] for name in FIELDS if name not in LATER}
        taken["loss"] = math.nan if taken["loss"] is None else taken["loss"]
        if taken["coef"] is None and value.get("payload"):
            payload = as_bytes(value["payload"])
            taken["coef"] = trees_of_payload(payload) or topics_of_payload(payload)
        later = {name: value.get(name) for name in LATER}
        later["features"] = tuple(later["features"] or ())
        if later["class_names"] is not None:
            later["class_names"] = list(later["class_names"])
        later["trials"] = json.loads(later["trials"]) if later["trials"] else None
        return cls(**taken | later | {"options": json.loads(value["options"] or "{}")})

    @classmethod
    def of_batch(cls, models: Models, place: int) -> "Model":
        """Makes one of the models that a trainer returned."""

        def item(column: Any) -> Any:
            if isinstance(column, Lists):
                begin, end = column.offsets[place : place + 2]
                values = column.values[begin:end].tolist()
                return [None if math.isnan(value) else value for value in values] or None
            if isinstance(column, Strings | Names):
                code = column.code[place]
                return None if code < 0 else column.pool[code]
            return column[place].item()

        value = {name: item(getattr(models, name)) for name in FIELDS}
        return cls.of(value | {"converged": bool(value["converged"])})

    def trained_on(self, features: Sequence[str], label: str | None) -> "Model":
        """Returns the model with the names of its features and its label."""
        return replace(self, features=tuple(features), label=label)

    def as_dict(self) -> dict[str, Any]:
        """SQL's fields by name, for JSON."""
        shown = asdict(self)
        return {name: shown[name] for name in FIELDS}

    def to_json(self) -> str:
        """The model as JSON text, with the format's version and a checksum of its content.

        `Model.from_json` gives an equal model, every double to the last bit.

        >>> import tuskml
        >>> con = tuskml.connect()
        >>> given = {"source": "SELECT x, 3 * x AS y FROM range(9) r(x)", "label": "y"}
        >>> model = tuskml.train(con, "linear", features=["x"], **given)
        >>> Model.from_json(model.to_json()) == model
        True
        """
        return model_file.write(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> "Model":
        """The model that `to_json` wrote.

        Raises DataError for text that is not a model, is damaged, or has a later format.
        """
        return cls(**model_file.read(text))

    def save(self, path: str | PathLike[str]) -> None:
        """Writes `to_json` to a file, which appears when it is complete."""
        model_file.save(self.to_json(), Path(path))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Model":
        """The model in a file that `save` wrote. Raises DataError if it is not one, or is
        damaged.
        """
        text = model_file.load(Path(path))
        try:
            return cls.from_json(text)
        except DataError as error:
            raise DataError(f"{path}: {error}") from error

    def to_lightgbm(self, unseen_as_missing: bool = False) -> str:
        """Boosted trees as LightGBM's text, which `lightgbm.Booster(model_str=...)` reads.

        It predicts the same numbers; classes are 0, 1, ... in it. Categories by name are read from
        data frames with categorical columns. LightGBM takes levels that training did not see for
        missing ones; where the model does not, this has to be allowed by
        unseen_as_missing. DataError otherwise, for other models, and for features that are made of
        columns, such as parts of dates.
        """
        text: str = lazy_function("write_lightgbm")(self, unseen_as_missing)
        return text

    @classmethod
    def from_lightgbm(cls, text: str) -> "Model":
        """The boosted trees that LightGBM's `Booster.save_model` wrote; classes are 0, 1, ...

        Raises DataError for text that is damaged, and for what tuskml's trees have not: linear
        leaves, other objectives.
        """
        return cls(**lazy_function("read_lightgbm")(text))

    @classmethod
    def from_onnx(
        cls, graph: "str | PathLike[str] | bytes | onnx.ModelProto", objective: str = "auto"
    ) -> "Model":
        """The model that an ONNX graph is: layers (Gemm, MatMul) or trees (TreeEnsemble and the
        older TreeEnsembleRegressor and TreeEnsembleClassifier) over one input of numbers.

        graph: a file, its bytes or the graph. objective: what margins without a response are:
        `squared` (the answer itself), `poisson` or `logistic`; `auto`: what the graph says. Raises
        DataError for a graph with a part that no model here has.
        """
        return cls(**lazy_function("read_onnx")(graph, objective))

    @property
    def trained_columns(self) -> tuple[str, ...]:
        """The columns or SQL expressions that predictions need."""
        if self.preparation is None:
            return self.features
        return tuple(scoring.source_kinds(self.preparation))

    @property
    def coefficients(self) -> dict[str, float]:
        """The coefficients by feature, in the order of `coef`; `pandas.Series` takes it.

        Raises DataError if they lie in a store, features have none, or two have the same name.
        """
        if not self.has_terms:
            raise DataError(f"the model is '{self.task}', whose features have no coefficients")
        names = self.term_names
        found = dict(zip(names, self.weights(), strict=True))
        if len(found) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise DataError(
                f"two features are called {twice!r}: coef has the coefficients by place"
            )
        return found

    def decision(self, X: Any, device: str = "cpu") -> Floats:
        """The margins of rows, coef · features + intercept, of shape (n,).

        X: of shape (n, n_features): an array, a SciPy sparse matrix, or a data frame with a
        column for each of the features, in any order. device: "gpu" multiplies dense X on an
        NVIDIA GPU. CuPy's arrays stay there; copying NumPy's takes longer than the CPU.
        """
        return scoring.score_rows(self, "decision", X, device)

    def predict(self, X: Any, device: str = "cpu") -> NDArray[Any]:
        """The number or the class of each row, of shape (n,); X as in `decision`.

        Classes that are numbers are float64, NaN where a feature is missing; boolean ones are 0.0
        and 1.0. Classes that are texts are objects: their names, and None.
        """
        if not self.has_text_classes:
            return scoring.score_rows(self, "predict", X, device)
        return self._class_names(scoring.score_rows(self, "predict_class", X, device))

    def predict_proba(self, X: Any, device: str = "cpu") -> Floats:
        """The probability of the higher class for each row, of shape (n,); `logistic` only."""
        return scoring.score_rows(self, "predict_proba", X, device)

    def predict_probas(self, X: Any) -> Floats:
        """The probability of each class for each row, of shape (n, classes); `logistic` only."""
        return scoring.probabilities(self, X)

    def predict_class(self, X: Any) -> list[str | None]:
        """The class of each row by its name, None where a feature is missing."""
        found: list[str | None] = self._class_names(
            scoring.score_rows(self, "predict_class", X)
        ).tolist()
        return found

    def _class_names(self, indices: Floats) -> NDArray[np.object_]:
        """The names of classes, (n,), by their indices from 1 on; None for NaN."""
        names = np.array([None, *self.names_of_classes], object)
        return names[np.nan_to_num(indices, nan=0.0).astype(np.intp)]

    def explain(self, X: Any) -> Explanation:
        """The contribution of each feature to the margins of rows, X as in `decision`.

        With the base value the contributions add up to the margin: Shapley values of boosted
        trees, coefficient times value of linear models. Raises DataError for nets, factorizations
        and models in a store.
        """
        return explain_rows(self, X)

    def covariance(self) -> explanation.Covariance:
        """The covariance of the coefficients, of a model with the option `intervals`, as SQL's
        `model_covariance`. Raises DataError for other models.
        """
        return explanation.covariance(self)

    def contrast(self, weights: Mapping[str, float]) -> Term:
        """A weighted sum of coefficients with its standard error, test and 95% interval, weights
        by the names of terms, as SQL's `model_contrast`.

        Raises DataError for an unknown term, and for a model without the option `intervals`.
        """
        return explanation.contrast(self, weights)

    def predict_interval(self, X: Any, level: float = 0.95) -> explanation.Intervals:
        """The predictions of rows with their intervals, X as in `decision`: the confidence
        interval of the mean, and the interval of a label.

        Raises DataError for a model that was trained without the option `intervals`.
        """
        return explanation.intervals(self, X, level)

    def marginal_effects(
        self, X: Any, weights: Any = None, offsets: Any = None
    ) -> tuple[Term, ...]:
        """The average marginal effects over rows, a term per feature, X as in `decision`: how the
        mean, or the probability of the higher class, changes with it, as SQL's
        `marginal_effects`.

        weights, offsets: (n,). Errors are None unless the model has the option `intervals`. Raises
        DataError for models that are neither linear nor generalized linear ones.
        """
        return explanation.marginal_effects(self, X, weights, offsets)

    def permutation_importance(
        self, X: Any, y: Any, repeats: int = 5, seed: int = 0
    ) -> dependence.Importance:
        """Measures the rise of the loss when a column is shuffled; X as in `decision`.

        y: (n,), their labels. For what the model knows, not what it has learned by heart, give
        rows that it was not trained on.
        """
        return dependence.permutation_importance(self, X, y, repeats, seed)

    def partial_dependence(
        self, X: Any, feature: str | int, points: int = 50
    ) -> dependence.Dependence:
        """The mean prediction of rows where one column has the same value in all of them."""
        return dependence.partial_dependence(self, X, feature, points)

    def card(self) -> dict[str, Any]:
        """The model in one row, as SQL's `model_card`: task, status, rows, loss, top effects."""
        return card.card(self)

    def summary(self) -> Summary:
        """Describes the training, and tabulates estimates, standard errors, z or t, and p."""
        return summarise(self)

    def plot_convergence(self, ax: "Axes | None" = None, **look: Any) -> "Axes":
        """Draws the objective by iteration; look: as for `tuskml.plots.plot_convergence`."""
        axes: Axes = lazy_function("plot_convergence")(self, ax, **look)
        return axes

    def plot_coefficients(self, ax: "Axes | None" = None, **look: Any) -> "Axes":
        """Draws the coefficients; look: as for `tuskml.plots.plot_coefficients`."""
        axes: Axes = lazy_function("plot_coefficients")(self, ax, **look)
        return axes

    def __repr__(self) -> str:
        about = f"{self.n_rows:,} rows, {self.n_features:,} features, loss {self.loss:.6g}"
        return f"<tuskml.Model {self.task}: {self.status}, {about}>"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()


FIELDS = tuple(item.name for item in MODEL_FIELDS if item.kind != "PAYLOAD")
"""The readable fields of SQL's model value, in its order."""
LATER = ("features", "preparation", "class_names", "trials", "note", "spread", "histogram")
"""Fields that models of an older version do not have."""
