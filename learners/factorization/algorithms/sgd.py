"""Stochastic gradient descent: blocks of ratings that share no vector run side by side.

Gemulla, Nijkamp, Haas and Sismanis, Large-scale matrix factorization with distributed stochastic
gradient descent, KDD 2011.
"""

from tuskml.learners.factorization.algorithms.algorithm import Algorithm, Place


class Sgd(Algorithm):
    name = "sgd"
    title = "stochastic gradient descent, a step per rating"
    source = "Gemulla, Nijkamp, Haas and Sismanis 2011"
    reason = "blocks of ratings that share neither users nor items run side by side"
    chosen_for = (Place.STORE, Place.GPU_IN_ORDER)
    stored = True
    rotates = True
    implicit = "bpr"


ALGORITHM = Sgd()
