"""The sample of the lasso of STRADS; see the README beside its file for where it comes from."""

from pathlib import Path

import numpy as np

FILE = Path(__file__).parent / "data" / "strads_lasso.npz"
OBJECTIVES = {0.01: 0.21192880003, 0.1: 0.49770085118}
"""The least 1/2 ||y - X w||^2 + penalty ||w||_1, by penalty, of the file as it was published."""


def sample():
    """X (500, 1000) and y (500,)."""
    kept = np.load(FILE)
    x = np.zeros((500, 1000))
    places = kept["rows"][kept["which"]].T.astype(np.intp)
    np.put_along_axis(x, places, kept["value"].T / 2**31, axis=0)
    return x, kept["y"] / 1e6


def objective(x, y, w, penalty):
    """That of OBJECTIVES."""
    return ((y - x @ w) ** 2).sum() / 2 + penalty * np.abs(w).sum()
