"""The estimator of clusters: scikit-learn's own checks, and its centres."""

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.utils.estimator_checks import parametrize_with_checks

from tuskml import OptionError
from tuskml.estimators import TuskKMeans


@pytest.mark.sample(25)
@parametrize_with_checks([TuskKMeans(), TuskKMeans(3, algorithm="minibatch")])
def test_scikit_learn_s_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def blobs(columns: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """(300, columns) features of five clusters, and weights of the rows; the last column is 0."""
    X, _ = make_blobs(300, columns, centers=5, random_state=4)
    X[:, -1] = 0
    return X, np.random.default_rng(5).integers(1, 4, size=300)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_clusters_are_scikit_learn_s(sparse: bool, weighted: bool) -> None:
    X, weight = blobs()
    weights = weight if weighted else None
    ours = TuskKMeans(5).fit(csr_array(X) if sparse else X, sample_weight=weights)
    peer = KMeans(5, n_init=20, random_state=0).fit(X, sample_weight=weights)
    by_first = [np.argsort(one.cluster_centers_[:, 0]) for one in (ours, peer)]
    centres = [
        one.cluster_centers_[order] for one, order in zip((ours, peer), by_first, strict=True)
    ]
    np.testing.assert_allclose(*centres, rtol=1e-9, atol=1e-9)
    assert ours.inertia_ == pytest.approx(peer.inertia_, rel=1e-9)
    assert ours.score(X) == pytest.approx(peer.score(X), rel=1e-9)
    np.testing.assert_allclose(
        ours.transform(csr_array(X) if sparse else X)[:, by_first[0]],
        peer.transform(X)[:, by_first[1]],
        rtol=1e-7,
    )
    np.testing.assert_array_equal(ours.transform(X).argmin(axis=1), ours.labels_)
    np.testing.assert_array_equal(ours.predict(X), ours.labels_)


def test_standardized_features_measure_the_distances() -> None:
    X, _ = blobs()
    scale = np.array([1.0, 100.0, 1.0, 1.0])
    ours = TuskKMeans(5, options={"standardize": True}).fit(X * scale)
    np.testing.assert_array_equal(ours.transform(X * scale).argmin(axis=1), ours.labels_)


def test_parameters_that_there_are_not_are_refused() -> None:
    with pytest.raises(OptionError, match="has no parameter 'cluster'"):
        TuskKMeans(cluster=3)  # type: ignore[call-arg]
    with pytest.raises(OptionError, match="clusters"):
        TuskKMeans(0).fit(np.eye(3))
