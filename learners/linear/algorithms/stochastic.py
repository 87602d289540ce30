"""Steps per row or per batch, by one thread or by several without locks.

Source: Robbins and Monro, A stochastic approximation method, 1951. `parts/epochs.py` has the
operators.
"""

from tuskml.learners.linear.algorithms.parts.algorithm import Streams
from tuskml.learners.linear.algorithms.parts.epochs import EpochAlgorithm


class Sgd(EpochAlgorithm):
    """Source: Bottou, Stochastic gradient descent tricks, 2012."""

    name = one_thread = "sgd"
    title = "stochastic gradient descent, a step per row"
    source = "Bottou 2012"
    stored = multinomial = True
    streams = Streams.BY_SAMPLER


class Mgd(EpochAlgorithm):
    name = one_thread = "mgd"
    title = "mini-batch gradient descent, a step per batch"
    source = "Kaoudi, Quiane-Ruiz, Thirumuruganathan, Chawla and Agrawal 2017"
    batch_size = 32
    batched = True
    own_losses = True
    samples = True
    stored = multinomial = True
    streams = Streams.UNASKED
    of_sgd = 1.15


class Hogwild(EpochAlgorithm):
    """Source: Niu, Recht, Re and Wright, HOGWILD!: a lock-free approach to parallelizing
    stochastic gradient descent, NIPS 2011.
    """

    name = "hogwild"
    title = "steps per row by threads that share a model without locks"
    source = "Niu, Recht, Re and Wright 2011"
    one_thread = Sgd.one_thread
    lock_free = True
    stored = True
    of_sgd = 1.05


class Hogbatch(EpochAlgorithm):
    """Source: Sallinen, Satish, Smelyanskiy, Sury and Re, High performance parallel stochastic
    gradient descent in shared memory, IPDPS 2016.
    """

    name = "hogbatch"
    title = "steps per batch by threads that share a model without locks"
    source = "Sallinen, Satish, Smelyanskiy, Sury and Re 2016"
    one_thread = Mgd.one_thread
    lock_free = True
    batch_size = Mgd.batch_size
    batched = True
    stored = stored_by_default = True
    of_sgd = 1.2


SGD, MGD, HOGWILD, HOGBATCH = Sgd(), Mgd(), Hogwild(), Hogbatch()
