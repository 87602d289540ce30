"""Documents as sparse rows of counts, and the text of words as packers hand it over."""

import numpy as np
from rows import block
from scipy.optimize import linear_sum_assignment

from tuskml.kernels.passes import Pass


def documents(tokens, dim, kind="sparse float32", segment_rows=1000):
    """A group of documents, each a list of ids of words."""
    entries = [np.unique(np.asarray(one, np.int64), return_counts=True) for one in tokens]
    return block(entries, np.zeros(len(tokens)), kind, segment_rows, dim)


def pass_over(groups, threads=1, **more):
    """A pass over groups of documents."""
    return Pass(groups, 0, None, None, True, threads, **more)


def text_of(words):
    """Words in the order of their ids, one behind the other, and where each begins."""
    pieces = [word.encode() for word in words]
    return b"".join(pieces), np.concatenate([[0], np.cumsum([len(p) for p in pieces])])


def planted(documents=600, topics=5, words=200, mean=80, seed=0):
    """Documents of planted topics: tokens of each, phi (K, V) and theta (n, K)."""
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.full(words, 0.05), topics)
    theta = rng.dirichlet(np.full(topics, 0.2), documents)
    found = []
    for share in theta:
        of = rng.choice(topics, size=rng.poisson(mean), p=share)
        found.append([int(rng.choice(words, p=phi[k])) for k in of])
    return found, phi, theta


def recovered(model, phi):
    """The least cosine of a planted topic to the one that it is matched with."""
    found = model.phi
    cosine = (found @ phi.T) / np.outer(np.linalg.norm(found, axis=1), np.linalg.norm(phi, axis=1))
    return cosine[linear_sum_assignment(-cosine)].min()
