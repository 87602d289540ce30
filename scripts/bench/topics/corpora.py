"""Documents for benchmarks of topics: generated from planted topics, or docstrings of installed
packages.

A corpus is the words of all tokens as numbers, (tokens,), the start of each document, (documents +
1,), and the number of different words.
"""

import ast
import collections
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Corpus = tuple[NDArray[np.int32], NDArray[np.int64], int]
WORD = re.compile(r"[a-z]{3,20}")
LEAST_WORDS, LEAST_DOCUMENTS, LARGEST_SHARE = 20, 5, 0.1
"""The least words of a docstring; the least documents of a word, and its largest share of them."""


def planted(tokens: int, words: int, topics: int, mean: int = 150, seed: int = 0) -> Corpus:
    """Documents of topics whose words follow Zipf's law, about `mean` tokens each."""
    rng = np.random.default_rng(seed)
    zipf = 1 / np.arange(1, words + 1)
    phi = rng.gamma(zipf / zipf.sum() * words * 0.05, size=(topics, words)) + 1e-12
    ends = np.cumsum(phi / phi.sum(axis=1, keepdims=True), axis=1)
    n = np.maximum(1, rng.poisson(mean, max(1, tokens // mean)))
    start = np.concatenate([[0], np.cumsum(n)])
    word = np.empty(start[-1], np.int32)
    for first in range(0, len(n), 1000):
        part = slice(start[first], start[min(first + 1000, len(n))])
        share = np.cumsum(
            rng.dirichlet(np.full(topics, 0.1), len(n[first : first + 1000])), axis=1
        )
        document = np.repeat(np.arange(len(share)), n[first : first + 1000])
        topic = (share[document] < rng.random(len(document))[:, None]).sum(axis=1)
        topic = np.minimum(topic, topics - 1)
        drawn = rng.random(len(document))
        for k in np.unique(topic):
            at = np.flatnonzero(topic == k)
            found = np.searchsorted(ends[k], drawn[at])
            word[part.start + at] = np.minimum(found, words - 1)
    return word, start, words


def docstrings(most: int = 20_000) -> Corpus:
    """Docstrings of the packages that are installed, in the order of their files."""
    documents = []
    for text in texts():
        found = WORD.findall(text.lower())
        if len(found) >= LEAST_WORDS:
            documents.append(found)
        if len(documents) == most:
            break
    count = collections.Counter(word for one in documents for word in set(one))
    limit = LARGEST_SHARE * len(documents)
    kept = sorted(word for word, n in count.items() if LEAST_DOCUMENTS <= n <= limit)
    number = {word: place for place, word in enumerate(kept)}
    numbered = [[number[word] for word in one if word in number] for one in documents]
    numbered = [one for one in numbered if one]
    start = np.concatenate([[0], np.cumsum([len(one) for one in numbered])])
    return np.concatenate(numbered).astype(np.int32), start, len(kept)


def texts() -> Iterator[str]:
    """Yields each docstring once."""
    seen: set[str] = set()
    folders = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"))
    for path in sorted(path for folder in folders for path in Path(folder).rglob("*.py")):
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            text = docstring(node)
            if text and text not in seen:
                seen.add(text)
                yield text


def docstring(node: Any) -> str | None:
    """The docstring of a module, a class or a function; None for other nodes."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return ast.get_docstring(node) if isinstance(node, kinds) else None
