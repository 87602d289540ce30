"""Factorization machines in ONNX graphs."""

from collections.abc import Sequence

import numpy as np

from tuskml.formats.onnx.graph import Graph
from tuskml.learners.fm.options import machine_in


def machine(graph: Graph, numbers: Sequence[float]) -> None:
    """Adds the margins of a machine; `first` is the intercept for each row, or no number where a
    feature is missing, and `second` the axis of features."""
    if not numbers:
        graph.add("Identity", ["first"], "margins")
        return
    weights, vectors = machine_in(numbers)
    graph.constant("coef", weights[:, None])
    graph.constant("vectors", vectors)
    graph.constant("squared_vectors", vectors**2)
    graph.constant("one_half", np.array(0.5))
    graph.add("MatMul", ["features", "coef"], "of_weights")
    graph.add("MatMul", ["features", "vectors"], "sums")
    graph.add("Mul", ["sums", "sums"], "squares_of_sums")
    graph.add("Mul", ["features", "features"], "squared_features")
    graph.add("MatMul", ["squared_features", "squared_vectors"], "sums_of_squares")
    graph.add("Sub", ["squares_of_sums", "sums_of_squares"], "twice_the_pairs")
    graph.add("ReduceSum", ["twice_the_pairs", "second"], "twice_of_pairs", keepdims=1)
    graph.add("Mul", ["twice_of_pairs", "one_half"], "of_pairs")
    graph.add("Add", ["of_weights", "of_pairs"], "of_features")
    graph.add("Add", ["of_features", "first"], "margins")
