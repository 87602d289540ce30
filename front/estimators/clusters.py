"""A scikit-learn estimator of clusters.

It trains with the same engine, options and objective as SQL's `train_model('kmeans', ...)`.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClusterMixin, TransformerMixin
from sklearn.metrics import euclidean_distances
from sklearn.utils.validation import validate_data

from tuskml.estimators.shared import FLOATS, Estimator, refuse_unknown_names
from tuskml.learners.clusters.learner import centres_in
from tuskml.model.scoring import Floats, score_rows


class TuskKMeans(TransformerMixin, ClusterMixin, Estimator):  # type: ignore[misc]
    """k-means: centres c that lower the mean of min_j |x - c_j|^2.

    clusters, starts, algorithm, max_iter, epsilon: options of `train_model`; `clusters` is
    scikit-learn's `n_clusters`, and `starts` its `n_init`. random_state: the seed; None means 0,
    so that fits can be repeated. options: any others, such as `{"batch_size": 1024}`.

    X: of shape (n_samples, n_features), dense or sparse, float32 or float64; others become
    float64. Fitted: `cluster_centers_` of shape (n_clusters, n_features), `labels_` of shape
    (n_samples,), `inertia_`, the weighted sum of squared distances, `n_iter_` and `models_`, a
    list of the one `tuskml.Model`, whose clusters count from 1. A sample weight of 2 equals the
    row twice.

    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> sorted(TuskKMeans(2).fit(X).cluster_centers_.ravel().tolist())
    [0.5, 10.5]
    """

    parameters = ("clusters", "starts", "algorithm", "max_iter", "epsilon")

    @refuse_unknown_names
    def __init__(
        self,
        clusters: int = 8,
        *,
        starts: int = 10,
        algorithm: str = "auto",
        max_iter: int = 300,
        epsilon: float | None = None,
        random_state: Any = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.clusters = clusters
        self.starts = starts
        self.algorithm = algorithm
        self.max_iter = max_iter
        self.epsilon = epsilon
        self.random_state = random_state
        self.options = options

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Trains. X: (n_samples, n_features); y is ignored.

        sample_weight: of shape (n_samples,), at least 0.
        """
        X = validate_data(self, X, accept_sparse=self._accepted_formats, dtype=FLOATS, order="C")
        self._train("kmeans", X, [None], weight=sample_weight)
        model = self.models_[0]
        self.factors_, centres = centres_in(np.asarray(model.weights(), np.float64))
        self.cluster_centers_ = centres[:, 1:].copy()
        self.inertia_ = float(model.loss * centres[:, 0].sum())
        self.labels_ = self.predict(X)
        return self

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Indices of the nearest centres, of shape (n_samples,)."""
        rows = self._rows(X)
        return score_rows(self.models_[0], "predict", rows).astype(np.intp) - 1

    def transform(self, X: Any) -> Floats:
        """Distances to the centres, of shape (n_samples, n_clusters); with option `standardize`
        those of standardised features."""
        rows = self._rows(X)
        factors = 1.0 if self.factors_ is None else self.factors_
        scaled = rows.multiply(factors).tocsr() if hasattr(rows, "tocsr") else rows * factors
        return np.asarray(euclidean_distances(scaled, self.cluster_centers_ * factors))

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the sum of squared distances to the nearest centres."""
        return -float((self.transform(X).min(axis=1) ** 2).sum())
