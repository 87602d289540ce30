"""scikit-learn estimators of further regressions: counts, amounts, quantiles, outliers, the lasso.

They train with the same engine, options and objective as SQL's `train_model` of these tasks.
"""

from typing import Any

from tuskml.errors import OptionError, one_of
from tuskml.estimators.linear import OneLoss, _Linear
from tuskml.estimators.shared import refuse_unknown_names

FAMILIES = ("poisson", "negative_binomial", "gamma", "tweedie", "inverse_gaussian")


class TuskGLMRegressor(OneLoss, _Linear):
    """Generalized linear models with a log link: predictions are exp(margin).

    family: `poisson` or `negative_binomial` for counts, `gamma` or `inverse_gaussian` for amounts
    above 0, `tweedie` for amounts of which some are 0. power: the variance's, of `tweedie`. The
    other parameters, X and what is fitted are those of `TuskRegressor`; y: numbers of at least 0,
    of `gamma` and `inverse_gaussian` above 0.

    >>> X = np.arange(9.0)[:, None]
    >>> model = TuskGLMRegressor().fit(X, np.exp(0.2 * X[:, 0]))
    >>> model.coef_.round(6).tolist()
    [0.2]
    """

    parameters = (*_Linear.parameters, "power")

    @refuse_unknown_names
    def __init__(
        self,
        family: str = "poisson",
        *,
        power: float | None = None,
        l1: float = 0.0,
        l2: float | None = None,
        fit_intercept: bool = True,
        algorithm: str = "auto",
        max_iter: int | None = None,
        epsilon: float = 1e-6,
        random_state: Any = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            l1=l1,
            l2=l2,
            fit_intercept=fit_intercept,
            algorithm=algorithm,
            max_iter=max_iter,
            epsilon=epsilon,
            random_state=random_state,
            options=options,
        )
        self.family = family
        self.power = power

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True
        return tags

    def _task(self) -> str:
        if self.family not in FAMILIES:
            raise OptionError(f"family is {self.family!r}, expected {one_of(FAMILIES)}")
        return self.family


class TuskQuantileRegressor(OneLoss, _Linear):
    """Linear regression of a quantile: the share of labels that lie below the prediction.

    quantile: between 0 and 1. The other parameters, X and what is fitted are those of
    `TuskRegressor`.

    >>> X = np.repeat([0.0, 1.0], 50)[:, None]
    >>> y = np.tile(np.arange(50.0), 2) + 100 * X[:, 0]
    >>> bool(abs(TuskQuantileRegressor(0.9).fit(X, y).predict([[1.0]])[0] - 144.5) < 1)
    True
    """

    parameters = (*_Linear.parameters, "quantile")

    @refuse_unknown_names
    def __init__(
        self,
        quantile: float = 0.5,
        *,
        l1: float = 0.0,
        l2: float | None = None,
        fit_intercept: bool = True,
        algorithm: str = "auto",
        max_iter: int | None = None,
        epsilon: float = 1e-6,
        random_state: Any = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            l1=l1,
            l2=l2,
            fit_intercept=fit_intercept,
            algorithm=algorithm,
            max_iter=max_iter,
            epsilon=epsilon,
            random_state=random_state,
            options=options,
        )
        self.quantile = quantile

    def _task(self) -> str:
        return "quantile"


class TuskHuberRegressor(OneLoss, _Linear):
    """Linear regression that outliers hardly move.

    delta: the residual, in units of y, from which on the loss is linear; None: 1.345 times a
    robust scale of the residuals. The other parameters, X and what is fitted are those of
    `TuskRegressor`.

    >>> X = np.arange(9.0)[:, None]
    >>> y = np.append(2 * X[:8, 0], 1000.0)
    >>> bool(abs(TuskHuberRegressor().fit(X, y).coef_[0] - 2) < 0.1)
    True
    """

    parameters = (*_Linear.parameters, "delta")

    @refuse_unknown_names
    def __init__(
        self,
        delta: float | None = None,
        *,
        l1: float = 0.0,
        l2: float | None = None,
        fit_intercept: bool = True,
        algorithm: str = "auto",
        max_iter: int | None = None,
        epsilon: float = 1e-6,
        random_state: Any = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            l1=l1,
            l2=l2,
            fit_intercept=fit_intercept,
            algorithm=algorithm,
            max_iter=max_iter,
            epsilon=epsilon,
            random_state=random_state,
            options=options,
        )
        self.delta = delta

    def _task(self) -> str:
        return "huber"
