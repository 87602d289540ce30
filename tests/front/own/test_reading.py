"""Models of LightGBM, XGBoost and CatBoost, read from their texts in Python and in SQL."""

import copy
import json
import math
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, LogisticRegression

import tuskml
from tuskml import DataError, Model

HERE = Path(__file__).parent
CATBOOST = json.loads((HERE / "catboost_models.json").read_text())
"""Models of CatBoost 1.2.10, rows, and what it predicts: `scripts/tests/catboost_models.py`."""
XGBOOST = json.loads((HERE / "xgboost_models.json").read_text())
LIGHTGBM = (
    (HERE.parent / "model" / "lightgbm_recorded.txt").read_text().partition("predictions")[0]
)
PREDICTED = [
    pytest.param(kept, name, id=f"{package} {name}")
    for package, kept in (("CatBoost", CATBOOST), ("XGBoost", XGBOOST))
    for name in kept["models"]
]
TEXTS = {
    "LightGBM": LIGHTGBM,
    "XGBoost": json.dumps(XGBOOST["models"]["three"]["model"]),
    "XGBoost linear": json.dumps(XGBOOST["models"]["linear"]["model"]),
    "CatBoost": json.dumps(CATBOOST["models"]["MultiClass"]["model"]),
    "CatBoost grown": json.dumps(CATBOOST["models"]["grown"]["model"]),
}
REFUSED = "expected LightGBM's text of .*, XGBoost's JSON of .* or CatBoost's JSON of "


def matrix(kept: Any) -> np.ndarray:
    return np.array([[math.nan if one is None else one for one in row] for row in kept["rows"]])


@pytest.mark.parametrize(("kept", "name"), PREDICTED)
def test_python_predicts_as_the_package_does(kept: Any, name: str) -> None:
    """Rows lie at thresholds, and miss values."""
    one = kept["models"][name]
    model = tuskml.model_from(json.dumps(one["model"]))
    found = model.predict_probas(matrix(kept)) if one["classes"] else model.predict(matrix(kept))
    np.testing.assert_allclose(found, one["predicted"], rtol=1e-6, atol=1e-6)
    if kept is CATBOOST and one["classes"]:
        assert [name.lower() for name in one["classes"]] == model.class_names
    assert Model.from_json(model.to_json()).payload == model.payload


@pytest.mark.parametrize(("kept", "name"), PREDICTED)
def test_sql_predicts_as_the_package_does(
    con: duckdb.DuckDBPyConnection, kept: Any, name: str
) -> None:
    one = kept["models"][name]
    con.execute("CREATE TABLE m AS SELECT model_from($1) AS m", [json.dumps(one["model"])])
    con.execute("CREATE TABLE x AS SELECT unnest($1::DOUBLE[][]) AS x", [kept["rows"]])
    call = "map_values(predict_probas(m, x))" if one["classes"] else "predict(m, x)"
    found = con.execute(f"SELECT {call} FROM m, x").fetchall()
    np.testing.assert_allclose([p for (p,) in found], one["predicted"], rtol=1e-6, atol=1e-6)


def test_names_and_explanations(con: duckdb.DuckDBPyConnection) -> None:
    text = json.dumps(CATBOOST["models"]["Huber"]["model"])
    con.execute("CREATE TABLE m AS SELECT tuskml_model_from($1) AS m", [text])
    told = con.execute("FROM explain_prediction((SELECT m FROM m), [1, 2, 3])").fetchall()
    assert [name for name, *_ in told] == ["base value", "a", "b", "c"]
    ((margin,),) = con.execute("SELECT decision(m, [1, 2, 3]) FROM m").fetchall()
    assert sum(row[2] for row in told) == pytest.approx(margin)
    assert con.execute("SELECT m.n_rows, m.plan, m.status FROM m").fetchall() == [
        (200, "read from CatBoost's JSON", "ok")
    ]
    assert tuskml.model_from(text).features == ("a", "b", "c")
    named = copy.deepcopy(XGBOOST["models"]["two"]["model"])
    named["learner"]["feature_names"] = ["u", "v", "w"]
    assert tuskml.model_from(json.dumps(named)).features == ("u", "v", "w")


def test_columns_of_texts(con: duckdb.DuckDBPyConnection) -> None:
    """Equal texts, and NULL between them."""
    con.execute("CREATE TABLE t (i INTEGER, content VARCHAR)")
    texts = [TEXTS["CatBoost"], TEXTS["CatBoost"], None, TEXTS["LightGBM"], TEXTS["CatBoost"]]
    con.executemany("INSERT INTO t VALUES (?, ?)", list(enumerate(texts)))
    found = con.execute("SELECT model_from(content).n_features FROM t ORDER BY i").fetchall()
    assert found == [(3,), (3,), (None,), (3,), (3,)]
    assert con.execute("SELECT model_from(NULL) IS NULL").fetchall() == [(True,)]
    assert con.execute("SELECT model_from(content) FROM t WHERE false").fetchall() == []


def test_python_reads_files_and_estimators(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(99, 2))
    y = x[:, 0] + x[:, 1] ** 2
    labels = np.array(["low", "mid", "top"])[np.digitize(y, [0, 1])]
    fitted = lgb.LGBMClassifier(n_estimators=3, verbosity=-1, n_jobs=1).fit(x, labels)
    model = tuskml.model_from(fitted)
    assert model.class_names == ["low", "mid", "top"]
    np.testing.assert_allclose(model.predict_probas(x), fitted.predict_proba(x), rtol=1e-12)
    file = tmp_path / "model.txt"
    fitted.booster_.save_model(file)
    for source in (file, str(file), file.read_bytes(), fitted.booster_):
        assert tuskml.model_from(source).payload == tuskml.model_from(file.read_text()).payload
    line = tuskml.model_from(LinearRegression().fit(x, y))
    assert (line.task, line.plan) == ("linear", "read from a LinearRegression of sklearn")
    several = tuskml.model_from(LogisticRegression().fit(x, np.digitize(y, [0, 1]) * 2))
    assert several.classes == [0, 2, 4]
    assert tuskml.model_from(line) is line
    graph = pytest.importorskip("tuskml.export_onnx").to_onnx(line)
    assert tuskml.model_from(graph).task == "linear"


@pytest.mark.parametrize("name", ["numbers", "three"])
def test_the_best_iteration_counts(name: str) -> None:
    """Texts of older versions do not say where iterations end."""
    model = copy.deepcopy(XGBOOST["models"][name]["model"])
    whole = tuskml.model_from(json.dumps(model)).iterations
    model["learner"]["attributes"] = {"best_iteration": "0"}
    first = tuskml.model_from(json.dumps(model))
    assert 0 < first.iterations < whole
    del model["learner"]["gradient_booster"]["model"]["iteration_indptr"]
    assert tuskml.model_from(json.dumps(model)).payload == first.payload


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("a\nb", f"the text is no model that can be read, {REFUSED}"),
        ("{}", f"the text is no model that can be read, {REFUSED}"),
        ("{" * 100_000, f"the text is no model that can be read, {REFUSED}"),
        (b"{L\xff", f"the text is no model that can be read, {REFUSED}"),
        ('{"learner": 3}', f"the text is damaged .*, {REFUSED}"),
        (json.dumps(CATBOOST["refused"]["categories"]), "the model has categorical features"),
        (json.dumps(CATBOOST["refused"]["fair"]), "the loss function is LogCosh, expected 'RMSE'"),
        ("no such file", "'no such file' is no file that can be read"),
        (object(), "the estimator is object, expected an estimator of LightGBM"),
        (lgb.LGBMRegressor(), "the LGBMRegressor is not fitted"),
    ],
    ids=range(10),
)
def test_refusals_say_what_is_expected(source: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        tuskml.model_from(source)


def test_sql_refuses_in_a_sentence(con: duckdb.DuckDBPyConnection) -> None:
    for text in ("", "hello", "{}", "tree", TEXTS["CatBoost"][:-9], "a" + chr(0)):
        with pytest.raises(duckdb.Error, match="model_from: the text ") as refused:
            con.execute("SELECT model_from($1)", [text])
        assert "\n" not in str(refused.value)
        assert con.execute("SELECT 1").fetchall() == [(1,)]


def test_a_text_beyond_the_memory_limit_is_refused() -> None:
    with (
        tuskml.connect(threads=1, memory_limit="200MB") as con,
        pytest.raises(
            duckdb.Error, match="model_from: no memory to read the 10,000,004 characters"
        ),
    ):
        con.execute("SELECT model_from('tree' || repeat('1 ', 5000000))")


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in JSON."""
    if not isinstance(value, dict | list):
        return [path]
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return [path, *(one for key, item in items for one in places(item, (*path, key)))]


ODD = st.one_of(
    st.sampled_from([None, True, "", "x", [], {}, math.nan, math.inf, -1, 10**6, 10**30, 0.5]),
    st.integers(-5, 9),
)


@given(st.data())
def test_damaged_json_is_refused_or_read(data: Any) -> None:
    found = json.loads(TEXTS[data.draw(st.sampled_from(list(TEXTS)[1:]))])
    for _ in range(data.draw(st.integers(1, 3))):
        left = places(found)[1:]
        if not left:
            break  # all was deleted
        *way, last = data.draw(st.sampled_from(left))
        inner = found
        for key in way:
            inner = inner[key]
        if data.draw(st.booleans()):
            inner[last] = data.draw(ODD)
        else:
            del inner[last]
    read_or_refused(json.dumps(found))


@given(st.data())
def test_damaged_text_is_refused_or_read(data: Any) -> None:
    text = TEXTS[data.draw(st.sampled_from(list(TEXTS)))]
    at = data.draw(st.integers(0, len(text)))
    more = data.draw(st.sampled_from(["", "\0", "-", "9", " ", "nan", "\n", "[", "="]))
    end = at + data.draw(st.sampled_from([0, 1, 9, len(text)]))
    read_or_refused(text[:at] + more + text[end:] + "\n")


def read_or_refused(text: str) -> None:
    """A model predicts, and nothing takes long."""
    began = time.monotonic()
    with suppress(DataError):
        model = tuskml.model_from(text)
        if 0 < model.n_features < 99:
            model.predict(np.zeros((2, model.n_features)))
    assert time.monotonic() - began < 5
