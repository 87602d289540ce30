"""Training of a stored model written down plainly in NumPy: all weights in one array."""

import numpy as np
from fitting import losses

SPARSE_INTERCEPT = 0.01
"""The damping of the intercept of sparse rows, as in scikit-learn's SGD."""


def sparse_rows(rng, n, d, mean=6, task="linear", empty=0.1):
    """n rows as (ids, values), ids repeated now and then, some rows empty, and labels."""
    lengths = np.where(rng.random(n) < empty, 0, rng.poisson(mean, n))
    # small ids are frequent
    rows = [((rng.random(k) ** 2 * d).astype(np.int64), rng.standard_normal(k)) for k in lengths]
    truth = rng.standard_normal(d)
    margins = np.array([truth[ids] @ values for ids, values in rows])
    y = margins if task == "linear" else (margins + 0.3 * rng.standard_normal(n) > 0) * 1.0
    return rows, y


def dense(rows, d):
    """The rows as a matrix; repeated ids add up."""
    x = np.zeros((len(rows), d))
    for i, (ids, values) in enumerate(rows):
        np.add.at(x[i], ids, values)
    return x


class Reference:
    """SGD over chunks of rows; key_of: the key of each feature."""

    def __init__(self, task, x, y, key_of, chunks, **options):
        self.task, self.x, self.y, self.chunks = task, x, y, chunks
        self.key_of = key_of
        self.step, self.power = options.pop("step", 0.1), options.pop("power", 1)
        self.batch, self.l1 = options.pop("batch_size", 1), options.pop("l1", 0.0)
        self.l2, self.class_weight = options.pop("l2", 0.0), options.pop("class_weight", (1, 1))
        assert not options
        self.w, self.b, self.time = np.zeros(x.shape[1]), 0.0, 0.0
        self.stamp = {}

    def shrink(self, which, key):
        """The l1 that waits for a payload; the weights have their l2 already."""
        waited = self.time - self.stamp.get(key, 0.0)
        by = self.l1 * (-np.expm1(-self.l2 * waited) / self.l2 if self.l2 else waited)
        self.w[which] = np.sign(self.w[which]) * np.maximum(np.abs(self.w[which]) - by, 0)
        self.stamp[key] = self.time

    def settle(self, keys):
        for key in keys:
            self.shrink(self.key_of == key, key)

    def epoch(self, done):
        """Runs one epoch; returns the sum of losses, each before its batch's update."""
        total = seen = 0
        for begin, end, keys in self.chunks:
            self.settle(keys)
            for at in range(begin, end, self.batch):
                which = slice(at, min(end, at + self.batch))
                total += self.update(self.x[which], self.y[which], done + seen / len(self.y))
                seen += which.stop - which.start
        return total

    def update(self, x, y, epochs):
        eta = self.step / (1 + epochs) ** (self.power / 2)
        part = len(y) / self.batch  # rows weigh the same in shorter batches
        loss, r = losses(self.task, x @ self.w + self.b, y)
        weight = 1.0
        if self.task != "linear":
            weight = np.where(y == 1, self.class_weight[1], self.class_weight[0])
        if self.l2:
            eta_w = part * min(eta, 8 / self.l2)
            decay = np.exp(-eta_w * self.l2)
            along = -np.expm1(-eta_w * self.l2) / self.l2
        else:
            eta_w, decay, along = part * eta, 1.0, part * eta
        self.w = decay * self.w - along * (weight * r) @ x / len(y)
        self.b -= SPARSE_INTERCEPT * eta_w * np.mean(weight * r)
        self.time += eta_w
        return np.sum(weight * loss)
