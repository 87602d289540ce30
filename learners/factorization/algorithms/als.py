"""Steps first, and in the end alternating least squares, which solves for each vector in turn.

Zhou, Wilkinson, Schreiber and Pan, Large-scale parallel collaborative filtering for the Netflix
prize, AAIM 2008.
"""

from tuskml.learners.factorization.algorithms.algorithm import Algorithm, Place

SOLVED = 4
"""Of so many epochs one is solved for the vectors, at least the last."""
RELAX = 1.6
"""How far beyond the least objective that goes, but in the last epoch: users and items depend on
each other, and both come sooner to where they will stand."""


class Als(Algorithm):
    name = "als"
    title = "epochs of steps, then alternating least squares"
    source = "Zhou, Wilkinson, Schreiber and Pan 2008"
    reason = "steps come near the least objective soon, and solving for the vectors reaches it"
    chosen_for = (Place.MEMORY,)
    step = 0.1
    """What noise a long step leaves is solved for in the end."""
    on_gpu = False
    solves = True
    implicit = "squared"

    def first_solved(self, max_iter: int) -> int:
        return max_iter - max(1, max_iter // SOLVED)

    def relax(self, epoch: int, max_iter: int) -> float:
        return 1.0 if epoch + 1 == max_iter else RELAX


ALGORITHM = Als()
