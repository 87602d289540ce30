"""The option `speculate`: Algorithm 1 on a sample, its settings, and what it refuses."""

import json

import numpy as np
import pytest

import tuskml
from tuskml.errors import OptionError
from tuskml.learners.linear.options import parse
from tuskml.learners.linear.request import Speculate


@pytest.fixture(scope="module")
def con():
    made = tuskml.connect(threads=2)
    rng = np.random.default_rng(4)
    x = rng.standard_normal((20_000, 6))
    y = rng.random(len(x)) < 1 / (1 + np.exp(-x @ rng.standard_normal(6)))
    table = {f"x{j}": x[:, j] for j in range(6)} | {"y": y}
    import pyarrow as pa

    made.register("given", pa.table(table))
    made.execute("CREATE TABLE rows AS FROM given")
    yield made
    made.close()


def explained(con, **options):
    query = "SELECT explain_training('logistic', y, [x0, x1, x2, x3, x4, x5], $1) FROM rows"
    text = json.dumps(options | {"format": "json"})
    return json.loads(con.execute(query, [text]).fetchall()[0][0])


def tried(document):
    return {one["algorithm"]: one["tried"] for one in document["candidates"] if one["tried"]}


def test_candidates_are_tried_where_it_is_asked_for(con):
    assert not tried(explained(con, epsilon=1e-3))
    asked = {"sample": 2000, "time": "20s", "epsilon": 0.01}
    found = tried(explained(con, epsilon=1e-3, speculate=asked))
    assert {"lbfgs", "bgd"} <= set(found)
    assert all(one["share"] < 1 for one in found.values())


def test_a_trial_ends_at_its_tolerance_and_is_continued(con):
    found = tried(explained(con, epsilon=1e-6, speculate={"sample": 2000, "epsilon": 0.02}))
    errors = found["bgd"]["errors"]
    assert min(errors) <= 0.02
    assert min(errors[:-1]) > 0.02
    assert found["bgd"]["curve"][-1][1] < 1e-3  # the fitted curve goes on towards epsilon


def test_what_was_extrapolated_is_near_what_a_training_takes(con):
    document = explained(con, epsilon=1e-4, speculate={"sample": 4000, "epsilon": 0.005})
    points = {one["algorithm"]: one["iterations"] for one in document["candidates"]}
    query = "SELECT train_model('logistic', y, [x0, x1, x2, x3, x4, x5], $1) FROM rows"
    for name in ("lbfgs", "bgd"):
        options = json.dumps({"epsilon": 1e-4, "algorithm": name})
        took = con.execute(query, [options]).fetchall()[0][0]["iterations"]
        assert took / 2 - 1 <= points[name]["point"] <= 2 * took + 1


def test_the_papers_defaults():
    assert parse('{"speculate": {}}').speculate == Speculate(1000, 10.0, 0.05)
    assert parse('{"speculate": {"time": "2s"}}').speculate == Speculate(time=2.0)
    assert parse("{}").speculate is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"speculate": 3}, "expected an object such as"),
        ({"speculate": {"sampel": 1000}}, "sample"),
        ({"speculate": {"sample": 1}}, "expected an object such as"),
        ({"speculate": {"epsilon": 0}}, "expected an object such as"),
        ({"speculate": {}, "algorithm": "lbfgs"}, "'auto', which is 'lbfgs': expected both"),
        ({"speculate": {}, "deterministic": True}, "reproducible"),
    ],
)
def test_what_cannot_be(options, words):
    with pytest.raises(OptionError, match=words):
        parse(json.dumps(options))
