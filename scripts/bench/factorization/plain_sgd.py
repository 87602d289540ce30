"""Biased matrix factorization by SGD as a person would write it in numba."""

from __future__ import annotations

import numba


@numba.njit(fastmath=True)  # type: ignore[untyped-decorator]
def epoch(user, item, rating, user_bias, item_bias, p, q, mean, step, l2):  # type: ignore[no-untyped-def]
    """Visits the ratings in their order; biases and factors are updated in place."""
    rank = p.shape[1]
    for n in range(len(rating)):
        u, i = user[n], item[n]
        margin = mean + user_bias[u] + item_bias[i]
        for k in range(rank):
            margin += p[u, k] * q[i, k]
        error = rating[n] - margin
        user_bias[u] += step * (error - l2 * user_bias[u])
        item_bias[i] += step * (error - l2 * item_bias[i])
        for k in range(rank):
            factor = p[u, k]
            p[u, k] += step * (error * q[i, k] - l2 * factor)
            q[i, k] += step * (error * factor - l2 * q[i, k])
