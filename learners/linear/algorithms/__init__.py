"""The algorithms, each a choice of the seven operators; a file here has one or several alike."""

from tuskml.learners.linear.algorithms import bgd, dcd, lbfgs, newton, newton_cg, stochastic
from tuskml.learners.linear.algorithms.parts.algorithm import Algorithm, Streams

REGISTERED: tuple[Algorithm, ...] = (
    newton.ALGORITHM,
    newton_cg.ALGORITHM,
    lbfgs.ALGORITHM,
    bgd.ALGORITHM,
    dcd.ALGORITHM,
    stochastic.ALGORITHM,
    stochastic.MGD,
    stochastic.SGD,
    stochastic.HOGBATCH,
    stochastic.HOGWILD,
)
"""The algorithms, in the order in which candidates are listed."""
ALGORITHMS = {one.name: one for one in REGISTERED}
FIRST_CHOICE = next(one for one in REGISTERED if one.first_choice)
"""The rule's, where its systems are small."""
LAST_CHOICE = next(one for one in REGISTERED if one.last_choice)
"""The rule's for everything else."""
SAMPLED = next(one for one in REGISTERED if one.samples)
"""The algorithm whose steps use a custom sampler."""
STORED = next(one for one in REGISTERED if one.stored_by_default)
BY_SAMPLER, UNASKED = (
    next(one for one in REGISTERED if one.streams is way)
    for way in (Streams.BY_SAMPLER, Streams.UNASKED)
)
"""The algorithms that read by row group if only the sampler is named, or no option."""
