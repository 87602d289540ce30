"""Online variational Bayes: `lda` compared with scikit-learn and gensim, on docstrings.

python scripts/bench/run.py online_vb --documents 3000 --topics 50 --passes 5

All have one thread, the same priors, batches and steps; their random beginnings differ, and so
does the order of the documents. The seconds are those of the training, ours from a table of lists
of words. The quality is the perplexity of one half of each document that was held out by the
topics of its other half.
"""

import argparse
import json
import time
from itertools import pairwise

import corpora
import numpy as np
from numpy.typing import NDArray
from topic_inference import Documents, Ours, halves, perplexity_of

ALPHA, BETA, BATCH, OFFSET, DECAY = 0.1, 0.01, 256, 10.0, 0.7
Floats = NDArray[np.float64]


def main() -> None:
    """Trains with each, and prints a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=3_000)
    parser.add_argument("--held-out", type=int, default=500)
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--passes", type=int, default=5)
    args = parser.parse_args()
    word, start, words = corpora.docstrings(args.documents)
    names = np.char.add("w", word.astype(str))
    whole = [names[a:b].tolist() for a, b in pairwise(start)]
    trained, held = whole[args.held_out :], whole[: args.held_out]
    for name, train in (("tuskml", ours), ("scikit-learn", scikit), ("gensim", gensim)):
        seconds, perplexity = train(trained, held, args)
        told = {"contender": name, "seconds": round(seconds, 2), "words": words}
        print(json.dumps(told | {"perplexity": round(perplexity, 1)}), flush=True)


def ours(trained: Documents, held: Documents, args: argparse.Namespace) -> tuple[float, float]:
    """Trains by SQL."""
    args.sweeps, args.threads = args.passes, 1
    args.more = {"algorithm": "online_vb", "batch_size": BATCH, "threads": 1}
    made = Ours(trained, held, args)
    return made.seconds, made.perplexity()


def matrix(documents: Documents, place: dict[str, int]) -> Floats:
    """Counts of words, (documents, words), sparse."""
    import scipy.sparse

    ids = [[place[word] for word in one if word in place] for one in documents]
    row = np.repeat(np.arange(len(ids)), [len(one) for one in ids])
    column = np.concatenate([np.array(one, int) for one in ids])
    shape = len(documents), len(place)
    return scipy.sparse.csr_matrix((np.ones(len(row)), (row, column)), shape)


def scikit(trained: Documents, held: Documents, args: argparse.Namespace) -> tuple[float, float]:
    """scikit-learn's LatentDirichletAllocation."""
    from sklearn.decomposition import LatentDirichletAllocation

    place = {word: i for i, word in enumerate(sorted({w for one in trained for w in one}))}
    x = matrix(trained, place)
    model = LatentDirichletAllocation(
        args.topics,
        doc_topic_prior=ALPHA,
        topic_word_prior=BETA,
        learning_method="online",
        learning_offset=OFFSET,
        learning_decay=DECAY,
        batch_size=BATCH,
        max_iter=args.passes,
        random_state=1,
    )
    began = time.perf_counter()
    model.fit(x)
    seconds = time.perf_counter() - began
    theta = model.transform(matrix([halves(one)[0] for one in held], place))
    phi = model.components_ / model.components_.sum(axis=1, keepdims=True)
    return seconds, perplexity_of(held, theta, phi, place)


def gensim(trained: Documents, held: Documents, args: argparse.Namespace) -> tuple[float, float]:
    """gensim's LdaModel."""
    from gensim.corpora import Dictionary
    from gensim.models import LdaModel

    words = Dictionary(trained)
    bags = [words.doc2bow(one) for one in trained]
    began = time.perf_counter()
    model = LdaModel(
        bags,
        args.topics,
        alpha=np.full(args.topics, ALPHA),
        eta=BETA,
        chunksize=BATCH,
        passes=args.passes,
        offset=OFFSET,
        decay=DECAY,
        iterations=100,
        random_state=1,
        eval_every=None,
    )
    seconds = time.perf_counter() - began
    gamma, _ = model.inference([words.doc2bow(halves(one)[0]) for one in held])
    theta = gamma / gamma.sum(axis=1, keepdims=True)
    return seconds, perplexity_of(held, theta, model.get_topics(), dict(words.token2id))


if __name__ == "__main__":
    main()
