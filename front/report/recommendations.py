"""Recommendations of matrix factorizations: the best items of some users, and of a new one."""

import json
from collections.abc import Sequence
from html import escape

import numpy as np

from tuskml.learners.tasks import of_pairs
from tuskml.model import scorers
from tuskml.model.model import Model
from tuskml.model.scoring import Floats, cells, source_kinds
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
    names = names_of(group.model)
    rows = []
    for user in there[:USERS].tolist():
        scores = scores_of(group.model, user, known.tolist(), names)
        order = np.argsort(-scores, kind="stable")[:ITEMS]
        items_named = (f"{name_of(names[1], known[k])} ({scores[k]:.3g})" for k in order)
        rows.append([name_of(names[0], user), ", ".join(items_named)])
    words = f"{group.name}: {len(there):,} users, {len(known):,} items with rows"
    caption = f"The first users of {group.name}, and their best items"
    return (
        f"<details><summary>{escape(words)}</summary>"
        + table(("user", "items (score)"), rows, caption)
        + "</details>"
    )


Column = tuple[str, list[str]]
"""The column of users or of items, and their names by their places."""


def names_of(model: Model) -> tuple[Column | None, Column | None]:
    """The columns of rows with names; None where ids are places."""
    if model.preparation is None:
        return None, None
    users, items = (
        (column["name"], column["levels"]) if column["kind"] == "levels" else None
        for column in json.loads(model.preparation)["columns"]
    )
    return users, items


def name_of(column: Column | None, place: int) -> str:
    """A user or an item as readers know it."""
    return f"{place:,}" if column is None else column[1][place]


def scores_of(
    model: Model, user: int, items: list[int], names: tuple[Column | None, Column | None]
) -> Floats:
    """The predictions for a user and some items, (n,)."""
    users, named = names
    if users is None or named is None:
        pairs = np.column_stack([np.full(len(items), user), items]).astype(float)
        return np.asarray(model.predict(pairs), float)
    columns = {
        name: cells(name, [levels[place] for place in places], kind)
        for (name, levels), places, kind in zip(
            (users, named),
            ([user] * len(items), items),
            source_kinds(model.preparation or "").values(),
            strict=True,
        )
    }
    return scorers.answers_by_name(model.payload, "predict", columns, len(items))


def vectors_of(model: Model) -> tuple[Floats, Floats]:
    """The vectors of users and of items, with their biases; rows of 0 have no training rows."""
    assert model.classes is not None
    n_users, n_items = (int(one) for one in model.classes[:2])
    both = np.asarray(model.coef, float).reshape(n_users + n_items, -1)
    return both[:n_users], both[n_users:]
