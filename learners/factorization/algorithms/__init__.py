"""The algorithms of matrix factorization: a file here, with one descriptor."""

from tuskml.learners.factorization.algorithms import als, hogwild, sgd
from tuskml.learners.factorization.algorithms.algorithm import Algorithm, Place

REGISTERED: tuple[Algorithm, ...] = (als.ALGORITHM, sgd.ALGORITHM, hogwild.ALGORITHM)
ALGORITHMS = {one.name: one for one in REGISTERED}


def default_for(place: Place) -> Algorithm:
    """The algorithm where none is asked for."""
    return next(one for one in REGISTERED if place in one.chosen_for)
