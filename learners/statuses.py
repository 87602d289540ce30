"""What each status of a model means, for the trainer and for the manual."""

INVALID, LEAK = "invalid rows", "label among features"
MEANINGS = {
    "ok": "the optimality condition holds to `epsilon` (or `epsilon` is 0)",
    "constant feature": "converged; a feature that never varies got coefficient 0",
    "collinear features": "converged; features determine each other, so many weights fit equally "
    "well: these are the smallest; those that the rows do not determine have no standard error; "
    "looked for up to 512 features",
    "rounded feature": "converged; a `FLOAT` feature has values beyond 16,777,216, where `FLOAT` "
    "rounds whole numbers, and varies by only a few of its steps: cast it to `DOUBLE`",
    "not converged": "`max_iter` was reached, or no better weights were found, before "
    "`epsilon` was reached",
    "early stop": "the loss of the rows held out by `validation` stopped falling; the best "
    "weights are kept",
    "time limit": "the limit `time` was reached, of the training or of its search",
    "diverged": "`matrix_factorization`: the objective grew without bound, even with ever "
    "smaller steps; `mlp`, `fm`: weights or losses are no numbers any more, or the loss is more "
    "than ten times that of the best constant: a constant model, expected a lower "
    "`learning_rate`",
    "too few rows": "fewer rows than weights and no penalty: many solutions fit; `fm`: a single "
    "row: a constant model",
    "separable": "a hyperplane separates the classes, or some rows of one class from the other, "
    "so there is no optimum without a penalty; a small ridge was used where `options` have "
    "`l2_standardized`",
    "out of range": "weights or sums of squares do not fit into doubles, as with labels beyond "
    "1e150 in size or features near 1e308: a constant model",
    "no split": "trees only: no split of the rows lowers the loss: a constant model",
    "no words": "`lda` only: no document has a word: topics without words",
    LEAK: "a feature equals the label in all rows of the group, at least 10, as where features "
    "are a whole row that has the label too: leave it out, as `* EXCLUDE (label)` does",
    "one class": "all labels are the same: a constant model",
    INVALID: "a row of the group has NaN, an infinite number or a label that the task does not "
    "have, or its rows differ in length: no model, predictions are NULL, and `plan` says which "
    "row it is; option `invalid` has `skip`",
}
"""From the least to the most important: a model gets the last that applies."""
