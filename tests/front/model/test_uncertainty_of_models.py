"""Covariances and intervals of `tuskml.Model`, and of `tuskml.predict`."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import statsmodels.api as sm

import tuskml
from tuskml import DataError, Model

RANDOM = np.random.default_rng(4)
ROWS = pd.DataFrame(
    {
        "a": RANDOM.normal(size=90),
        "b": RANDOM.normal(size=90) * 3,
        "k": RANDOM.choice(["red", "green", "blue"], 90),
        "g": np.arange(90) % 2,
    }
)
ROWS["y"] = ROWS.a - ROWS.b + (ROWS.k == "red") + RANDOM.normal(size=90)
KEPT = {"intervals": "covariance"}
ENDS = ["fit", "std_err", "lower", "upper", "prediction_lower", "prediction_upper"]


def peer(rows: pd.DataFrame, by_name: bool = False):
    x = rows[["a", "b"]]
    if by_name:
        x = x.assign(**{f"k[{one}]": (rows.k == one) * 1.0 for one in ("green", "red")})
    return sm.OLS(rows.y, sm.add_constant(x.rename(columns=str))).fit()


@pytest.mark.parametrize("by_name", [False, True])
def test_they_are_those_of_statsmodels(con, by_name: bool) -> None:
    features = {"features": ["a", "b", "k"]} if by_name else {"features": ["a", "b"]}
    model = tuskml.train(con, "linear", source=ROWS, label="y", **features, **KEPT)
    fitted = peer(ROWS, by_name)
    found = model.covariance()
    assert found.terms[0] == "intercept"
    names = ["intercept", *fitted.params.index[1:]]
    order = [names.index(term) for term in found.terms]
    expected = fitted.cov_params().to_numpy()[np.ix_(order, order)]
    np.testing.assert_allclose(found.matrix, expected, rtol=1e-6)
    expected = fitted.get_prediction().summary_frame(alpha=0.2).to_numpy()
    x = ROWS if by_name else ROWS[["a", "b"]].to_numpy()
    shown = model.predict_interval(x, level=0.8)
    np.testing.assert_allclose(np.stack([getattr(shown, one) for one in ENDS], 1), expected, 1e-6)
    if not by_name:
        sparse = model.predict_interval(scipy.sparse.csr_matrix(x), level=0.8)
        np.testing.assert_allclose(sparse.std_err, expected[:, 1], rtol=1e-6)
        floats = model.predict_interval(x.astype(np.float32), level=0.8)
        np.testing.assert_allclose(floats.std_err, expected[:, 1], rtol=1e-5)


NUMBERS = ["estimate", "std_err", "statistic", "p", "lower", "upper"]


@pytest.mark.parametrize("by_name", [False, True])
def test_marginal_effects_are_those_of_sql(con, by_name: bool) -> None:
    """Of arrays also those of statsmodels."""
    row = "{'a': a, 'b': b, 'k': k}" if by_name else "[a, b]"
    con.register("r", ROWS)
    call = f"""train_model('logistic', g, {row}, '{{"intervals": "covariance"}}')"""
    con.execute(f"CREATE TABLE kept AS SELECT {call} AS m FROM r")
    ((value,),) = con.execute("SELECT m FROM kept").fetchall()
    listed = f"unnest(marginal_effects(m, {row}), recursive := true)"
    known = con.execute(f"SELECT {listed} FROM r, kept").fetchall()
    x = ROWS if by_name else ROWS[["a", "b"]].to_numpy()
    found = Model.of(value).marginal_effects(x)
    assert [one.name for one in found] == [one[0] for one in known]
    numbers = np.array([[getattr(one, name) for name in NUMBERS] for one in found])
    np.testing.assert_allclose(numbers, np.array([one[1:] for one in known]), rtol=1e-9)
    if not by_name:
        peer = sm.Logit(ROWS.g, sm.add_constant(ROWS[["a", "b"]])).fit(disp=0).get_margeff()
        np.testing.assert_allclose(numbers, peer.summary_frame().to_numpy(), rtol=1e-5)
        sparse = Model.of(value).marginal_effects(scipy.sparse.csr_matrix(x))
        assert [one.std_err for one in sparse] == pytest.approx(numbers[:, 1], rel=1e-9)


def test_marginal_effects_leave_out_rows_without_a_number(con) -> None:
    given = {"source": ROWS, "label": "g", "features": ["a", "b"], **KEPT}
    model = tuskml.train(con, "poisson", **given)
    x, weights, offsets = ROWS[["a", "b"]].to_numpy().copy(), np.ones(90), np.zeros(90)
    x[0, 1] = weights[1] = offsets[2] = np.nan
    weights[3] = 0
    found = model.marginal_effects(x, weights, offsets)
    known = model.marginal_effects(x[4:])
    for one, other in zip(found, known, strict=True):
        assert one.estimate == pytest.approx(other.estimate, rel=1e-9)
        assert one.std_err == pytest.approx(other.std_err, rel=1e-9)
    assert model.marginal_effects(x[:1]) == ()
    with pytest.raises(DataError, match="weights has 3 numbers, X has 90 rows"):
        model.marginal_effects(x, np.ones(3))
    trees = tuskml.train(con, "gbdt", source=ROWS, label="y", features=["a"], trees=2)
    with pytest.raises(DataError, match="model is 'gbdt', expected a linear or generalized"):
        trees.marginal_effects(x[:, :1])


def test_contrasts_are_those_of_statsmodels(con) -> None:
    model = tuskml.train(con, "linear", source=ROWS, label="y", features=["a", "b"], **KEPT)
    known = peer(ROWS).t_test([1, 2, -0.5])
    found = model.contrast({"intercept": 1, "a": 2, "b": -0.5})
    shown = [found.estimate, found.std_err, found.statistic, found.p, found.lower, found.upper]
    expected = [known.effect, known.sd, known.tvalue, known.pvalue, known.conf_int()]
    np.testing.assert_allclose(shown, np.concatenate([np.ravel(x) for x in expected]), rtol=1e-6)
    with pytest.raises(
        DataError, match=r"weights has 'c', expected terms .* 'intercept', 'a', 'b'"
    ):
        model.contrast({"c": 1})


def test_a_model_from_json_has_the_same(con) -> None:
    model = tuskml.train(con, "poisson", source=ROWS, label="g", features=["a", "b"], **KEPT)
    again = Model.from_json(model.to_json())
    assert again == model
    assert again.payload == model.payload
    np.testing.assert_array_equal(again.covariance().matrix, model.covariance().matrix)
    x = np.zeros((1, 2))
    assert again.predict_interval(x).lower == model.predict_interval(x).lower


def test_the_database_predicts_the_same_for_each_group(con) -> None:
    given = {"source": ROWS, "features": ["a", "b"]}
    models = tuskml.train(con, "linear", label="y", group_by="g", **given, **KEPT)
    found = tuskml.predict(con, models, kind="predict_interval", level=0.9, **given)
    for g, rows in found.groupby("g"):
        own = models[g].predict_interval(rows[["a", "b"]], 0.9)
        for name in ENDS:
            np.testing.assert_allclose(
                [one[name] for one in rows.interval], getattr(own, name), rtol=1e-12
            )
    with pytest.raises(DataError, match="level is given for predict, expected it for"):
        tuskml.predict(con, models, level=0.9, **given)


def test_models_without_are_refused(con) -> None:
    model = tuskml.train(con, "linear", source=ROWS, label="y", features=["a", "b"])
    with pytest.raises(DataError, match="intervals"):
        model.covariance()
    with pytest.raises(DataError, match="intervals"):
        model.predict_interval(np.zeros((1, 2)))
    kept = tuskml.train(con, "linear", source=ROWS, label="y", features=["a", "b"], **KEPT)
    with pytest.raises(DataError, match="level is 2, expected a number between 0 and 1"):
        kept.predict_interval(np.zeros((1, 2)), 2)
