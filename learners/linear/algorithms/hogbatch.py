"""HogBatch: steps per batch, by several threads on one model without locks.

Sallinen, Satish, Smelyanskiy, Sury and Re, High performance parallel stochastic gradient descent
in shared memory, IPDPS 2016. `parts/epochs.py` has the operators.
"""

from tuskml.learners.linear.algorithms import mgd
from tuskml.learners.linear.algorithms.parts.epochs import EpochAlgorithm


class Hogbatch(EpochAlgorithm):
    name = "hogbatch"
    title = "steps per batch by threads that share a model without locks"
    source = "Sallinen, Satish, Smelyanskiy, Sury and Re 2016"
    one_thread = mgd.ALGORITHM.one_thread
    lock_free = True
    batch_size = mgd.ALGORITHM.batch_size
    batched = True
    stored = stored_by_default = True
    of_sgd = 1.2


ALGORITHM = Hogbatch()
