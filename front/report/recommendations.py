"""Recommendations of matrix factorizations: the best items of some users, and of a new one."""

from collections.abc import Sequence
from html import escape

import numpy as np

from tuskml.learners.tasks import of_pairs
from tuskml.model.model import Model
from tuskml.model.scoring import Floats
from tuskml.report.groups import Group, some_of
from tuskml.report.pieces import note, section, table

GROUPS, USERS, ITEMS, PAIRS = 20, 5, 5, 5_000_000
"""The most groups shown, users of each, items of each user, and items of all."""


def recommendations(groups: Sequence[Group]) -> str:
    """The section; nothing where no model has the vectors of users and items."""
    found = [group for group in groups if has_vectors(group)]
    if not found:
        return ""
    text = (
        "The items with the highest predictions, with their scores. Items that a user has chosen "
        "already are among them, since models do not keep their rows: recommend(model, user, n, "
        "exclude) leaves them out."
    )
    some = some_of(found, GROUPS)
    more = f" {len(some):,} of {len(found):,} groups are shown." if len(some) < len(found) else ""
    return section("recommended", "Recommendations", note(text + more), *map(of_group, some))


def has_vectors(group: Group) -> bool:
    """Returns whether there are users and items to score."""
    model = group.model
    if model is None or not of_pairs(model.task) or not model.coef or not model.classes:
        return False
    return model.classes[1] <= PAIRS


def of_group(group: Group) -> str:
    """A group's table, which opens by a click."""
    assert group.model is not None
    users, items = vectors_of(group.model)
    there, known = (np.flatnonzero(part.any(axis=1)) for part in (users, items))
    rows = []
    for user in there[:USERS].tolist():
        pairs = np.column_stack([np.full(len(known), user), known]).astype(float)
        scores = np.asarray(group.model.predict(pairs), float)
        order = np.argsort(-scores, kind="stable")[:ITEMS]
        rows.append([f"{user:,}", ", ".join(f"{known[k]:,} ({scores[k]:.3g})" for k in order)])
    words = f"{group.name}: {len(there):,} users, {len(known):,} items with rows"
    caption = f"The first users of {group.name}, and their best items"
    return (
        f"<details><summary>{escape(words)}</summary>"
        + table(("user", "items (score)"), rows, caption)
        + "</details>"
    )


def vectors_of(model: Model) -> tuple[Floats, Floats]:
    """The vectors of users and of items, with their biases; rows of 0 have no training rows."""
    assert model.classes is not None
    n_users, n_items = (int(one) for one in model.classes[:2])
    both = np.asarray(model.coef, float).reshape(n_users + n_items, -1)
    return both[:n_users], both[n_users:]
