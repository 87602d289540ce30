"""Topics of a real corpus: docstrings of installed packages, beside tomotopy."""

import sys
from pathlib import Path

import numpy as np
import pytest
from documents import documents, pass_over

from tuskml.kernels.topics import Prior, Sampler, SamplerOrder

pytestmark = [pytest.mark.native, pytest.mark.nightly]

FOLDER = Path(__file__).parents[3] / "scripts" / "bench" / "topics"
SWEEPS = 300


def test_the_likelihood_of_docstrings_is_tomotopy_s(monkeypatch):
    tomotopy = pytest.importorskip("tomotopy")
    monkeypatch.setattr(sys, "path", [*sys.path, str(FOLDER)])
    import corpora

    word, start, words = corpora.docstrings(most=3000)
    assert len(start) - 1 >= 2000
    tokens = np.split(word, start[1:-1])
    theirs = tomotopy.LDAModel(k=50, alpha=0.1, eta=0.01, seed=1)
    theirs.optim_interval = 0
    for one in tokens:
        theirs.add_doc([str(number) for number in one])
    theirs.train(SWEEPS, workers=1)
    rows = pass_over(documents(tokens, words), threads=2)
    with Sampler(rows, Prior(50, 0.1, 0.01), 1, 0, cut=SamplerOrder(4)) as sampler:
        sampler.sweep(rows, SWEEPS)
        (found,) = sampler.likelihood(rows)
    assert found / len(word) == pytest.approx(theirs.ll_per_word, rel=0.005)
