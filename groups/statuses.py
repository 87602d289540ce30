"""What a status of a model means, once for the trainer and for the manual."""

MEANINGS = {
    "ok": "the optimality condition holds to `epsilon` (or `epsilon` is 0)",
    "constant feature": "converged; a feature that never varies got coefficient 0",
    "collinear features": "converged; a feature that others determine got no weight of its own "
    "in that step",
    "not converged": "`max_iter` was reached, or no better point was found, before `epsilon` was",
    "early stop": "the held-out rows of `validation` stopped gaining; the best weights are kept",
    "time limit": "`time` was over",
    "diverged": "of `matrix_factorization`: with ever smaller steps the objective still grew out "
    "of all bounds",
    "too few rows": "fewer rows than weights and no penalty: many solutions fit",
    "separable": "a straight border parts the classes, so without a penalty there is no optimum",
    "out of range": "weights or squares are too large or too small for doubles, as with labels of "
    "1e160: a constant model",
    "one class": "all labels are the same: a constant model",
}
"""In rising order of what a person must know first."""
