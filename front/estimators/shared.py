"""What all estimators share: parameters that are options, checked rows, training, warnings."""

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from tuskml.api.arrays import frame_of_names, train_arrays, train_frame
from tuskml.errors import OptionError, nearest
from tuskml.learners.options.kinds import EVERYWHERE
from tuskml.learners.options.other_names import hint
from tuskml.learners.registry import all_options
from tuskml.model.model import Model

Init = TypeVar("Init", bound=Callable[..., None])
FLOATS = [np.float64, np.float32]
UNFINISHED = {
    "not converged": "raise max_iter or epsilon",
    "separable": "rows separate, so some coefficients run away: give l2",
    "too few rows": "there are fewer rows than coefficients: give l2",
    "level per row": "levels of a category hardly repeat: cast numbers, and leave ids out",
    "time limit": "the time was over",
    "not compared": "no candidate of the search could be judged by rows held out",
    "fewer centres": "there are fewer distinct rows than clusters: ask for fewer",
    "diverged": "lower the learning rate",
    "out of range": "numbers are too large or too small for doubles: scale y or X",
}


def about(name: str, names: list[str]) -> str:
    """What a parameter that there is not may have been meant to be."""
    if name in all_options():
        return f"{hint(name)}; give options={{'{name}': ...}}"
    expected = f", expected {', '.join(names[:-1])} or {names[-1]}"
    return hint(name) or nearest(name, names) or expected


def refuse_unknown_names(init: Init) -> Init:
    """An `__init__` that refuses names that it lacks in a sentence; its signature stays."""

    @functools.wraps(init)
    def checking_init(self: BaseEstimator, *values: Any, **given: Any) -> None:
        names = type(self)._get_param_names()
        for name in given:
            if name not in names:
                wrong = f"{type(self).__name__} has no parameter '{name}'{about(name, names)}"
                raise OptionError(wrong)
        init(self, *values, **given)

    return checking_init  # type: ignore[return-value]


class Estimator(BaseEstimator):  # type: ignore[misc]
    """What estimators share: options, rows, the training of their models.

    sparse_rows: whether X may be sparse; parameters: the names of those that are options;
    unfinished: what to do about a training's status.
    """

    sparse_rows = True
    unfinished: ClassVar[Mapping[str, str]] = UNFINISHED
    parameters: tuple[str, ...] = ()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.sparse_rows
        return tags

    def _settings(self) -> dict[str, Any]:
        """The options of `train_model`: the parameters, but for those at the default of an option
        that does not act everywhere, which the caller may not have set."""
        given = {name: getattr(self, name) for name in self.parameters}
        known = all_options()
        settings = {
            name: value
            for name, value in given.items()
            if value is not None
            and (known[name].acts is EVERYWHERE or value != known[name].default)
        }
        if self.random_state is not None:
            settings["seed"] = int(check_random_state(self.random_state).randint(2**31 - 1))
        return settings | (self.options or {})

    def _train(
        self,
        task: str,
        X: Any,
        labels: Sequence[NDArray[Any] | None],
        more: Sequence[Mapping[str, Any]] = (),
        weight: Any = None,
    ) -> None:
        """Trains a model for each column of labels; more: options of each; weight: of the rows."""
        if weight is not None:
            weight = _check_sample_weight(weight, X, dtype=np.float64, ensure_non_negative=True)
        names = getattr(self, "feature_names_in_", ())
        settings = [{**self._settings(), **own} for own in more or [{}] * len(labels)]
        if any("calibration" in given for given in settings):
            raise OptionError(
                "option 'calibration' is for SQL and tuskml.train: here scikit-learn's "
                "CalibratedClassifierCV calibrates an estimator"
            )
        self.models_ = [
            train_frame(task, X, y, given, weight)
            if hasattr(X, "columns")
            else train_arrays(task, X, y, given, names, weight)
            for y, given in zip(labels, settings, strict=True)
        ]
        self.n_iter_ = max(model.iterations for model in self.models_)
        for status in sorted({model.status for model in self.models_} & set(self.unfinished)):
            message = f"the training ended as '{status}': {self.unfinished[status]}"
            warnings.warn(message, ConvergenceWarning, stacklevel=3)

    @property
    def _accepted_formats(self) -> str | bool:
        """Says which sparse matrices X may be."""
        return "csr" if self.sparse_rows else False

    def _check(self, X: Any, y: Any, **more: Any) -> tuple[Any, Any]:
        """X and y; a frame with columns that are not numbers stays one."""
        frame = frame_of_names(X)
        if frame is None:
            return validate_data(  # type: ignore[no-any-return]
                self, X, y, accept_sparse=self._accepted_formats, dtype=FLOATS, order="C", **more
            )
        validate_data(self, frame, skip_check_array=True)
        labels = column_or_1d(y, warn=True)
        check_consistent_length(frame, labels)
        return frame, labels

    def _rows(self, X: Any) -> Any:
        """Rows to predict, checked."""
        check_is_fitted(self)
        if self.models_[0].preparation is not None:
            frame = X.to_pandas() if hasattr(X, "to_pandas") else X
            validate_data(self, frame, reset=False, skip_check_array=True)
            return frame
        return validate_data(
            self, X, accept_sparse=self._accepted_formats, dtype=FLOATS, reset=False
        )


def model_of(estimator: Any) -> Model:
    """The one model of a fitted estimator; an SVM of more than two classes has several."""
    check_is_fitted(estimator)
    if len(estimator.models_) != 1:
        raise OptionError(
            f"the estimator has {len(estimator.models_)} models, one per class, expected one model"
        )
    return estimator.models_[0]  # type: ignore[no-any-return]
