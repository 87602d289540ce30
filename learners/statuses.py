"""What each status of a model means, for the trainer and for the manual."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Pass, label_ranges, leaks
from tuskml.learners.models import Models, Strings

INVALID, LEAK, UNLIKE = "invalid rows", "label among features", "level per row"
ROUNDED = "rounded feature"
MEANINGS = {
    "ok": "the optimality condition holds to `epsilon` (or `epsilon` is 0)",
    "constant feature": "converged; a feature that never varies got coefficient 0",
    "collinear features": "converged; features determine each other, so many weights fit "
    "equally well: these are the smallest, without standard errors where "
    "the rows do not determine them; looked for up to 512 features",
    "rounded feature": "converged; a `FLOAT` feature has values beyond 16,777,216 and varies "
    "by only a few of its steps: cast it to `DOUBLE`; or features or labels "
    "are so far from 0, for what they vary by, that they or predictions "
    "lose their digits: subtract a constant",
    "not converged": "`max_iter` was reached, or no better weights were found, before "
    "`epsilon` was reached; `mlp`, `fm`, `matrix_factorization`: the loss is "
    "not below that of the best constant: a constant model",
    "early stop": "the loss of the rows held out by `validation` stopped falling; the best "
    "weights are kept",
    "not compared": "a search: no candidate could be judged by rows held out (`model_trials` "
    "says why): the model is that of the simplest candidate (fewest leaves or "
    "units, strongest penalty, then by the alphabet); or `fold_by`, `time_by` "
    "or `gap` left a training with `validation` no row to hold out, or none to "
    "train on: the model is of all rows, without early stopping",
    "worse than start": "`mlp` with `warm_start`: the training ended at a higher loss than "
    "that of the model that it started from: that model; expected a lower "
    "`learning_rate` or more epochs",
    "time limit": "the limit `time` was reached, of the training or of its search",
    "diverged": "expected a lower `learning_rate` or `step`; `gbdt`: the loss rose by more "
    "than half of what the trees had lowered it by: the trees up to its lowest "
    "value, or none; `mlp`, `fm`, `matrix_factorization`: weights or losses are no "
    "numbers any more, or the loss is far above that of the best constant: a "
    "constant model; linear models: it is far above that of the start, whose "
    "weights the model has",
    "too few rows": "fewer rows than weights and no penalty: many solutions fit; `mlp`, `fm`: a "
    "single row: a constant model",
    "separable": "ever larger weights separate rows of one class from the others, or rows "
    "whose count is 0, so there is no optimum without a penalty; coefficients "
    "that run away have no standard error, the others those of a fit without "
    "these rows; a small ridge was used for what runs away where `options` have "
    "`l2_standardized`",
    "no split": "trees only: no split of the rows lowers the loss: a constant model",
    UNLIKE: "levels of a category, or classes, hardly repeat in 10 or more rows, as ids do, or "
    "numbers that were read as text: `note` names the column; cast numbers to `DOUBLE` "
    "and dates to `DATE`, and leave ids out",
    "out of range": "weights or sums of squares do not fit into doubles, as with labels beyond "
    "1e150: a constant model; `kmeans`: a feature is beyond 1e150, or all are "
    "below 1e-140: a model without centres, whose predictions are NULL",
    "no feedback": "`matrix_factorization` with implicit feedback: no label is above 0, or "
    "with loss `bpr` each user has feedback on all items: all scores are 0",
    "no words": "`lda` only: no document has a word: topics without words",
    "fewer centres": "`kmeans` only: the group has fewer different rows than `clusters`: each of "
    "them is a centre",
    LEAK: "in all rows of a group of at least 10, a feature equals the label, is a multiple of "
    "it plus a constant (with two features or more), or has a level for each of a few "
    "labels, and that is no chance (p < 1e-4): leave it out, as `* EXCLUDE (label)` does",
    "one class": "all labels are the same: a constant model, whose class has the probability "
    "1; `intercept` and `predict_proba(model, x)` are NULL where it is unknown "
    "whether that is the higher class, which option `classes` says, and labels 0, "
    "-1, `false` and `true` do",
    INVALID: "a row of the group has NaN, an infinite number or a label that the task does not "
    "have, or its rows differ in length: no model, predictions are NULL, and `plan` says which "
    "row it is; option `invalid` has `skip`",
}
"""From the least to the most important: a model gets the last that applies."""


def with_status(models: Models, status: str, which: NDArray[np.bool_]) -> Models:
    """The models, of which some have a status, (n,). A status that matters more stays."""
    if not which.any():
        return models
    pool, code = models.status.pool, models.status.code.copy()
    order = list(MEANINGS)
    lesser = np.isin(pool, order[: order.index(status)])
    code[which & lesser[code]] = len(pool)
    return replace(models, status=Strings((*pool, status), code))


LEAST_ROWS = 10
"""In fewer rows a feature is easily the label by chance."""


def with_leaks(models: Models, groups: NDArray[np.void]) -> Models:
    """The models of groups (kernels.GROUP), whose status says where a feature is the label; models
    carry their groups' places in `groups`."""
    return with_status(models, LEAK, leaks(groups[models.group], LEAST_ROWS) > 0)


LOST = 1e-3
"""Of what labels vary by, the rounding of a prediction that a person must know of."""


def labels_lost(labels: NDArray[np.void], rounded: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Marks groups of numbers whose labels (LABELS) lose their digits, (G,): doubles are apart by
    more than LOST of what the labels vary by, or they are one double and were more numbers.
    rounded: whether numbers were rounded to these doubles."""
    low, high = labels["low"], labels["high"]
    size = np.maximum(np.abs(low), np.abs(high))
    with np.errstate(over="ignore"):
        spread = high / 2 - low / 2
    deviation = np.where(labels["variance"] > 0, np.sqrt(labels["variance"]), spread)
    known = np.isfinite(size)
    steps = np.spacing(np.where(known, size, 1.0))
    lost: NDArray[np.bool_] = known & np.where(low == high, rounded, steps > LOST * deviation)
    return lost


def lost_labels(groups: NDArray[np.void], rounded: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The same of groups (kernels.GROUP)."""
    return labels_lost(label_ranges(groups), rounded)


def with_lost_labels(models: Models, lost: NDArray[np.bool_]) -> Models:
    """The models, of which those of numbers say that their labels are lost; lost: (n,)."""
    return with_status(models, ROUNDED, lost & (models.class_names.code < 0))


SAMPLE = 4096
"""Rows of each group from which the means of features are estimated."""


def far_from_zero(rows: Pass, most: float) -> NDArray[np.bool_]:
    """Marks groups with a feature that all rows have and whose mean is beyond `most` deviations,
    (G,)."""
    if rows.sparse:
        if type(rows) is not Pass:  # the rows are in parts or on a device
            return np.zeros(rows.n_groups, bool)
        return np.asarray(rows.far_means(most).any(axis=1))
    mean, deviation = rows.feature_moments(SAMPLE)
    with np.errstate(over="ignore"):
        far = (deviation > 0) & (np.abs(mean) > most * deviation)
    return np.asarray(far.any(axis=1))
