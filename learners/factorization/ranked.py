"""Rankings of items for users, judged by the items that were held out, with implicit feedback."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import cancel_mark, raise_if_cancelled
from tuskml.kernels.passes import Floats
from tuskml.kernels.segments import chunks
from tuskml.learners.models import Models

Ints = NDArray[np.int64]
BEST = 10
"""The items of a user that count, as `ndcg(label, score, 10)` has them in SQL."""
AT_ONCE = 1 << 22
"""Scores in memory at a time."""


def pairs_of(group: np.void) -> Ints:
    """The users and items of a group's rows with feedback above 0, (n, 2)."""
    found = [x[labels > 0].astype(np.int64) for _, x, labels in chunks(group)]
    return np.concatenate(found) if found else np.empty((0, 2), np.int64)


def judge_ranks(
    models: Models, trained: Sequence[Ints], held: NDArray[np.void], biases: bool
) -> Floats:
    """The normalized discounted cumulative gain of each model's best ten items, (n,); NaN where no
    user has both training rows and other held-out items.

    trained: the pairs of each model's training rows (`pairs_of`); held: GROUP of shape (n,);
    biases: whether vectors start with the bias of items. Raises Interrupted.
    """
    found = np.full(len(held), np.nan)
    for i, pairs in enumerate(trained):
        begin, end = models.coef.offsets[i : i + 2]
        if begin == end:
            continue
        first, last = models.classes.offsets[i : i + 2]
        users, items, width = models.classes.values[first:last].astype(int).tolist()
        vectors = models.coef.values[begin:end].reshape(users + items, width)
        found[i] = mean_gain(vectors[:users], vectors[users:], pairs, pairs_of(held[i]), biases)
    return found


def mean_gain(users: Floats, items: Floats, trained: Ints, held: Ints, biases: bool) -> float:
    """The mean over users of the gain of held-out items among the best ten, those of the user's
    training left out (K. Järvelin and J. Kekäläinen, Cumulated gain-based evaluation of IR
    techniques, 2002), each item with a gain of 1.

    users, items: vectors, (users, width) and (items, width); trained, held: pairs, (n, 2). An item
    without training rows is never recommended, and one user without them is not judged.
    """
    known, mark = items.any(axis=1), cancel_mark()
    gains: list[Floats] = []
    for some, seen, wanted in by_users(users, trained, held, len(items)):
        raise_if_cancelled(mark)
        scores = some[:, biases:] @ items[:, biases:].T
        if biases:
            scores += items[:, 0]
        scores[:, ~known] = -np.inf
        scores[seen] = -np.inf
        best = np.argsort(-scores, axis=1, kind="stable")[:, :BEST]
        hit = np.take_along_axis(wanted, best, axis=1)
        hit &= np.isfinite(np.take_along_axis(scores, best, axis=1))
        discount = 1 / np.log2(np.arange(2, BEST + 2))
        ideal = np.cumsum(discount)[np.minimum(wanted.sum(axis=1), BEST) - 1]
        gains.append(hit @ discount[: hit.shape[1]] / ideal)
    return float(np.concatenate(gains).mean()) if gains else np.nan


def by_users(
    users: Floats, trained: Ints, held: Ints, n_items: int
) -> Iterator[tuple[Floats, tuple[Ints, Ints], NDArray[np.bool_]]]:
    """Yields users that are judged, some at a time: their vectors (k, width), the rows and items
    of their training, and which items were held out and not in it, (k, items).
    """
    width = max(n_items, int(max(trained[:, 1].max(initial=-1), held[:, 1].max(initial=-1))) + 1)
    numbers = [np.unique(pairs[:, 0] * width + pairs[:, 1]) for pairs in (trained, held)]
    numbers[1] = np.setdiff1d(numbers[1], numbers[0], assume_unique=True)
    judged = np.intersect1d(numbers[0] // width, numbers[1] // width)
    judged = judged[(judged < len(users)) & users[np.minimum(judged, len(users) - 1)].any(axis=1)]
    each = max(1, AT_ONCE // width)
    for begin in range(0, len(judged), each):
        some = judged[begin : begin + each]
        masks = []
        for all_numbers in numbers:
            mine = all_numbers[np.isin(all_numbers // width, some)]
            masks.append((np.searchsorted(some, mine // width), mine % width))
        wanted = np.zeros((len(some), width), bool)
        wanted[masks[1]] = True
        within = masks[0][1] < n_items
        yield users[some], (masks[0][0][within], masks[0][1][within]), wanted
