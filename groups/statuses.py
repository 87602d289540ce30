"""What a status of a model means, once for the trainer and for the manual."""

MEANINGS = {
    "ok": "the optimality condition holds to `epsilon` (or `epsilon` is 0)",
    "constant feature": "converged; a feature that never varies got coefficient 0",
    "collinear features": "converged; features determine each other; of the weights that fit "
    "equally well these are the smallest, and what the rows leave open has no standard error",
    "rounded feature": "converged; a `FLOAT` feature beyond 16,777,216, where `FLOAT` skips whole "
    "numbers, varies by few of its steps: cast it to `DOUBLE`",
    "not converged": "`max_iter` was reached, or no better point was found, before `epsilon` was",
    "early stop": "the held-out rows of `validation` stopped gaining; the best weights are kept",
    "time limit": "`time` was over",
    "diverged": "of `matrix_factorization`: with ever smaller steps the objective still grew out "
    "of all bounds",
    "too few rows": "fewer rows than weights and no penalty: many solutions fit",
    "separable": "a straight border parts the classes, or some rows of one class from the other, "
    "so there is no optimum without a penalty; a small ridge was used unless `l2` is given",
    "out of range": "weights, or sums of squares, are beyond what doubles hold, as with labels "
    "beyond 1e150 in size or features near 1e308: a constant model",
    "one class": "all labels are the same: a constant model",
}
"""In rising order of what a person must know first."""
