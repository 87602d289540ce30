"""Statistics of the labels and features of a group, merged from those of its parts."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.structures import LABELS, SOME_ROW

Floats = NDArray[np.float64]


def merge_labels(parts: Sequence[NDArray[np.void]], classifies: bool) -> NDArray[np.void]:
    """Merges LABELS (1,) of a group from those of its parts, each with at least a row.

    classifies: whether a third label is one that differs from the least and the largest.
    """
    out = np.zeros(1, LABELS)
    every = np.concatenate(list(parts))
    out["low"], out["high"] = every["low"].min(), every["high"].max()
    highest = every["high"] == out["high"]
    out["n_rows"], out["n_high"] = every["n_rows"].sum(), every["n_high"][highest].sum()
    weight = every["weight"]
    out["weight"] = total = add_terms(weight)
    out["weight_high"] = add_terms(every["weight_high"][highest])
    out["exposure"] = add_terms(weight * every["exposure"]) / total
    mean, deviation = merge_moments(
        weight, every["mean"][:, None, None], np.sqrt(every["variance"])[:, None, None]
    )
    out["mean"], out["variance"] = mean[0], deviation[0] ** 2
    note_third(out, every, classifies)
    return out


def add_terms(terms: Floats) -> float:
    """Sum from the first term to the last, in order."""
    total = 0.0
    for term in terms.tolist():
        total += term
    return total


def note_third(out: NDArray[np.void], every: NDArray[np.void], classifies: bool) -> None:
    """Sets a third label: one that a part has seen, or a part's extreme that is neither of all.

    A part has its rows in its own order, so the row's number has no meaning for the table.
    """
    ends = (out["low"][0], out["high"][0])
    for part in every:
        others = [label for label in (part["low"], part["high"]) if label not in ends]
        third = part["third"] if part["third_row"] > 0 else (others[0] if others else None)
        if third is not None and (classifies or part["third_row"] > 0):
            out["third"], out["third_row"] = third, SOME_ROW
            return


def merge_moments(weight: Floats, mean: Floats, deviation: Floats) -> tuple[Floats, Floats]:
    """Merges mean and standard deviation (1, d) from those of parts (P, 1, d) of weights (P,).

    The variance is that within the parts and that between them (Chan, Golub and LeVeque, Updating
    formulae and a pairwise algorithm for computing sample variances, 1979). A feature that is
    constant and equal in all parts has the deviation 0.
    """
    share = (weight / weight.sum())[:, None, None]
    centre = mean[0] + (share * (mean - mean[0])).sum(axis=0)
    variance = (share * (deviation**2 + (mean - centre) ** 2)).sum(axis=0)
    same = (deviation == 0).all(axis=0) & (mean == mean[0]).all(axis=0)
    return np.where(same, mean[0], centre), np.where(same, 0.0, np.sqrt(variance))
