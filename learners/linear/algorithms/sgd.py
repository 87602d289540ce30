"""Stochastic gradient descent: a step per row.

Robbins and Monro, A stochastic approximation method, 1951; Bottou, Stochastic gradient descent
tricks, 2012. `parts/epochs.py` has the operators.
"""

from tuskml.learners.linear.algorithms.parts.algorithm import Streams
from tuskml.learners.linear.algorithms.parts.epochs import EpochAlgorithm


class Sgd(EpochAlgorithm):
    name = one_thread = "sgd"
    title = "stochastic gradient descent, a step per row"
    source = "Bottou 2012"
    stored = multinomial = True
    streams = Streams.BY_SAMPLER


ALGORITHM = Sgd()
