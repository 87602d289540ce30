"""Sentences for what is no document, and for functions of other models."""

# ruff: noqa: E501, sentences are read better on one line

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))

from topic_rows import MODEL, error_of

pytestmark = pytest.mark.fault(family="bad input by name")

WRONG = {
    "train_model('lda', 1, t)": "train_model: task 'lda' has no label, expected NULL in its place",
    "train_model('lda', NULL, {numbers})": "train_model: task 'lda' takes documents, expected a list of words such as ['a', 'b'] or sparse(ids, counts)",
    "train_model('lda', NULL, {row})": "train_model: task 'lda' takes documents, expected a list of words such as ['a', 'b'] or sparse(ids, counts)",
}


@pytest.mark.parametrize("call", WRONG)
def test_what_is_no_document_is_refused(ask: Any, call: str) -> None:
    values = {"duck": ("[1.0, 2.0]", "{'a': i}"), "post": ("ARRAY[1.0, 2.0]", "docs")}[ask.db]
    given_call = call.replace("{numbers}", values[0]).replace("{row}", values[1])
    assert error_of(ask, f"SELECT {given_call} FROM docs WHERE i = 1") == WRONG[call]


def test_nested_lists_are_refused(ask: Any) -> None:
    nested = "[t, t]" if ask.db == "duck" else "ARRAY[t, t]"
    told = {
        "duck": "train_model: features are VARCHAR[][], expected a list of words that is not nested, for task 'lda', or numbers",
        "post": "train_model: tokens has 2 dimensions, expected a list of words",
    }
    assert (
        error_of(ask, f"SELECT train_model('lda', NULL, {nested}) FROM docs WHERE i = 1")
        == told[ask.db]
    )


def test_words_are_for_topics_alone(ask: Any) -> None:
    told = error_of(ask, "SELECT train_model('linear', 1, t) FROM docs WHERE i = 1")
    if ask.db == "duck":
        assert told.startswith("train_model got (VARCHAR, INTEGER, VARCHAR[]), expected")
    else:
        assert (
            told
            == "train_model: features is text[], expected an array of real, double precision, integer or numeric"
        )


@pytest.mark.parametrize("function", ["predict", "decision", "predict_proba"])
def test_topics_are_no_score(ask: Any, function: str) -> None:
    features = "[1.0]" if ask.db == "duck" else "ARRAY[1.0]"
    told = error_of(ask, f"SELECT {function}(m, {features}) FROM ({MODEL}) AS f")
    assert (
        told
        == f"{function}: model is 'lda', which predicts topics; use predict_topics(model, tokens)"
    )


def test_other_tokens_and_other_models_are_refused(ask: Any) -> None:
    array, numbers = ("['a']", "[1, 2]") if ask.db == "duck" else ("ARRAY['a']", "ARRAY[1, 2]")
    ids = "sparse([1], [2.0])" if ask.db == "duck" else "sparse(ARRAY[1], ARRAY[2.0])"
    line = f"(SELECT train_model('linear', i, {numbers.replace('1', 'i')}) AS m FROM docs)"
    assert (
        error_of(ask, f"SELECT predict_topics(m, {numbers}) FROM ({MODEL}) AS f")
        == "predict_topics: tokens are neither a list of words such as ['a', 'b'] nor sparse(ids, counts)"
    )
    assert (
        error_of(ask, f"SELECT predict_topics(m, {ids}) FROM ({MODEL}) AS f")
        == "predict_topics: the model was trained on words, expected a list of words such as ['a', 'b']"
    )
    assert (
        error_of(ask, f"SELECT predict_topics(m, {array}) FROM {line} AS f")
        == "predict_topics: model is 'linear', expected 'lda'"
    )
    assert (
        error_of(ask, f"SELECT * FROM model_topics(({MODEL}), 0)")
        == "model_topics: words is 0, expected 1 to 10000000 of 2 topics"
    )
