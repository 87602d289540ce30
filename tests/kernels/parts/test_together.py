"""Messages to a part that travel together, against each of them alone."""

import numpy as np
import pytest
from rows import block

from tuskml.kernels.parts.answering import answer_message
from tuskml.kernels.parts.keeping import PartRows
from tuskml.kernels.parts.message import pack_message, unpack_message
from tuskml.kernels.parts.together import answers, bundle, unbundle

pytestmark = pytest.mark.native
N, D = 3_000, 5


def message(method, weights, stride=1, loss=1, positive=1.0):
    settings = {"loss": loss, "fit_intercept": True, "smoothing": 0.0, "loss_only": False}
    settings |= {"stride": stride, "by_scores": False}
    header = {"method": method, "given": {}, "settings": settings, "d": D, "folds": None}
    return pack_message(header, [np.array([positive]), None, None, weights])


@pytest.mark.parametrize("kind", ["dense float32", "dense float64", "sparse float64"])
def test_the_answers_are_those_of_each_message_alone(kind):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.7)
    rows = PartRows(block(x, rng.integers(0, 2, N).astype(float), kind))
    some = [rng.normal(size=(1, D + 1)) for _ in range(5)]
    asked = [message("gradient", one) for one in some]
    asked.insert(2, message("gradient", some[0], stride=2))
    asked.insert(4, message("gradient", some[1], loss=0))
    asked += [message("labels", np.zeros(0)), message("gradient", some[2])]
    alone = []

    def answer(one):
        alone.append(one)
        return answer_message(rows, one, 1)

    found = answers(rows, asked, 1, answer)
    assert len(alone) == 2, "stride 2 and labels"
    for one, its in zip(asked, found, strict=True):
        mine, expected = (
            unpack_message(each)[1][0] for each in (its, answer_message(rows, one, 1))
        )
        np.testing.assert_allclose(mine.view(np.uint8) if mine.dtype.kind == "u" else mine,
                                   expected, rtol=1e-9, atol=1e-9)  # fmt: skip
        own = answers(rows, [one], 1, answer)[0]
        assert own == its, "to the last bit, whoever travels with it"


def test_a_part_without_rows_answers_nothing():
    rows = PartRows(None)
    found = answers(rows, [message("gradient", np.zeros((1, D + 1)))] * 2, 1, lambda one: one)
    assert [unpack_message(one)[1] for one in found] == [[], []]


def test_a_bundle_holds_messages_and_a_message_is_none():
    held = [b"", b"abc", message("labels", np.zeros(0))]
    assert unbundle(bundle(held)) == held
    assert unbundle(held[2]) is None
