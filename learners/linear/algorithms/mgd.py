"""Mini-batch gradient descent: a step per batch of rows; `parts/epochs.py` has the operators."""

from tuskml.learners.linear.algorithms.parts.algorithm import Streams
from tuskml.learners.linear.algorithms.parts.epochs import EpochAlgorithm


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


ALGORITHM = Mgd()
