"""HOGWILD!: ratings are trained as threads come to them, without locks.

Niu, Recht, Re and Wright, HOGWILD!: a lock-free approach to parallelizing stochastic gradient
descent, NIPS 2011.
"""

from tuskml.learners.factorization.algorithms.algorithm import Algorithm, Place


class Hogwild(Algorithm):
    name = "hogwild"
    title = "steps per rating by threads that share vectors without locks"
    source = "Niu, Recht, Re and Wright 2011"
    reason = "a GPU trains more ratings side by side than there are blocks that share no vector"
    chosen_for = (Place.GPU,)
    lock_free = True


ALGORITHM = Hogwild()
