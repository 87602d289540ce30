"""HOGWILD!: steps per row, by several threads on one model without locks.

Niu, Recht, Re and Wright, HOGWILD!: a lock-free approach to parallelizing stochastic gradient
descent, NIPS 2011. `parts/epochs.py` has the operators.
"""

from tuskml.learners.linear.algorithms import sgd
from tuskml.learners.linear.algorithms.parts.epochs import EpochAlgorithm


class Hogwild(EpochAlgorithm):
    name = "hogwild"
    title = "steps per row by threads that share a model without locks"
    source = "Niu, Recht, Re and Wright 2011"
    one_thread = sgd.ALGORITHM.one_thread
    lock_free = True
    stored = True
    of_sgd = 1.05


ALGORITHM = Hogwild()
