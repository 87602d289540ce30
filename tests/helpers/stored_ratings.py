"""Ratings, factorizations of them in memory and in a store, and the parts of such a model."""

import json
import re

import numpy as np
from rows import block

from tuskml.groups.stored import train_stored
from tuskml.learners.factorization import training as factorization
from tuskml.learners.factorization.options import OPTIONS
from tuskml.learners.learner import Request
from tuskml.learners.registry import options_of, task_named


def ratings(users=61, items=47, n=3000, seed=0):
    """user, item, rating: two factors, biases and noise; at least one rating of each id."""
    random = np.random.default_rng(seed)
    u = np.concatenate([np.arange(users), random.integers(0, users, n - users)])
    i = np.concatenate([np.arange(items), random.integers(0, items, n - items)])
    p, q = random.standard_normal((users, 3)), random.standard_normal((items, 3))
    y = 3 + p[u, 0] / 2 + q[i, 0] / 2 + (p[u, 1:] * q[i, 1:]).sum(1)
    return u, i, y + random.standard_normal(n) / 4


TASK = task_named("matrix_factorization")


def groups(arrays):
    user, item, rating = arrays
    return block(np.stack([user, item], 1).astype(float), rating)


def in_memory(arrays, **options):
    asked = OPTIONS.parse(json.dumps({"algorithm": "sgd"} | options))
    (models,) = factorization.train(groups(arrays), Request(TASK, asked), 0)
    return models


def in_store(root, arrays, name="films", **options):
    request = Request(TASK, options_of(TASK, json.dumps(options | {"store": name})))
    (models,) = train_stored(groups(arrays), request, 0, str(root.path))
    return models


def vectors(root, models):
    """All vectors of a stored model, from its sealed file."""
    users, items, width = map(int, models.classes.values)
    with root.open(models.store.pool[0]) as sealed:
        assert sealed.dimension == (users + items) * width
        return sealed.weights(np.arange(sealed.dimension)).reshape(users + items, width)


def counted(models):
    return json.loads(models.options.pool[0])["counters"]


def per_key(models):
    """Vectors that share a key; 0: a key a weight."""
    (layout,) = re.findall("KV.*", models.plan.pool[0])
    named = {"KV: one key per weight": 0, "KV-VP: one vector per key": 1}
    return named[layout] if layout in named else int(re.findall("VP: ([0-9]+) v", layout)[0])


def error(models, coef, arrays):
    """Root mean squared error over ratings, in NumPy."""
    user, item, rating = arrays
    n_users, _, width = map(int, models.classes.values)
    coef = np.asarray(coef, float).reshape(-1, width)
    p, q = coef[user], coef[n_users + item]
    margin = models.intercept[0] + p[:, 0] + q[:, 0] + (p[:, 1:] * q[:, 1:]).sum(1)
    return np.sqrt(np.mean((margin - rating) ** 2))


def nothing_left(root, name="films", versions=()):
    assert root.working(name) == []
    assert root.versions(name) == list(versions)


def check_sums(counts):
    saved = counts["saved_by_partitioning"] + counts["saved_by_pushing"]
    assert counts["features"] == saved + counts["cache_hits"] + counts["requests"]
