"""Every bad input gives one clear sentence, and the connection stays usable."""

# ruff: noqa: E501, SQL is read better on one line

import sys
from pathlib import Path

import duckdb
import pytest

from tuskml.learners.registry import TASKS, learner_of
from tuskml.version import VERSION

sys.path.append(str(Path(__file__).parent))

from asking import sentence, train

pytestmark = pytest.mark.fault(family="bad input by name")

NAMES = ", ".join(learner_of(TASKS["linear"]).options.by_name)
ERROR = '\'{"invalid": "error"}\''
MODEL = "(SELECT train_model('linear', y, x) FROM t)"

CASES = {
    "unknown task": (
        train(task="'linaer'"),
        "train_model: task is 'linaer', expected 'linear', 'logistic', 'svm', 'squared_hinge', 'poisson', 'negative_binomial', 'gamma', 'tweedie', 'inverse_gaussian', 'huber', 'quantile', 'ordinal', 'matrix_factorization', 'gbdt', 'random_forest', 'mlp', 'lasso', 'elastic_net', 'sparse_logistic', 'lda', 'kmeans' or 'fm'; did you mean 'linear'?",
    ),
    "task cut short": (
        train(task="'forest'"),
        "train_model: task is 'forest', expected 'linear', 'logistic', 'svm', 'squared_hinge', 'poisson', 'negative_binomial', 'gamma', 'tweedie', 'inverse_gaussian', 'huber', 'quantile', 'ordinal', 'matrix_factorization', 'gbdt', 'random_forest', 'mlp', 'lasso', 'elastic_net', 'sparse_logistic', 'lda', 'kmeans' or 'fm'; did you mean 'random_forest'?",
    ),
    "task in capitals": (
        train(task="'SVM'"),
        "train_model: task is 'SVM', expected 'linear', 'logistic', 'svm', 'squared_hinge', 'poisson', 'negative_binomial', 'gamma', 'tweedie', 'inverse_gaussian', 'huber', 'quantile', 'ordinal', 'matrix_factorization', 'gbdt', 'random_forest', 'mlp', 'lasso', 'elastic_net', 'sparse_logistic', 'lda', 'kmeans' or 'fm'; did you mean 'svm'?",
    ),
    "empty task": (
        train(task="''"),
        "train_model: task is '', expected 'linear', 'logistic', 'svm', 'squared_hinge', 'poisson', 'negative_binomial', 'gamma', 'tweedie', 'inverse_gaussian', 'huber', 'quantile', 'ordinal', 'matrix_factorization', 'gbdt', 'random_forest', 'mlp', 'lasso', 'elastic_net', 'sparse_logistic', 'lda', 'kmeans' or 'fm'",
    ),
    "NULL task": (
        train(task="NULL"),
        "train_model: task is NULL, expected the name of one, such as 'linear' or 'logistic'",
    ),
    "unknown task to explain": (
        "SELECT explain_training('svn', y, x) FROM t",
        "explain_training: task is 'svn', expected 'linear', 'logistic', 'svm', 'squared_hinge', 'poisson', 'negative_binomial', 'gamma', 'tweedie', 'inverse_gaussian', 'huber', 'quantile', 'ordinal', 'matrix_factorization', 'gbdt', 'random_forest', 'mlp', 'lasso', 'elastic_net', 'sparse_logistic', 'lda', 'kmeans' or 'fm'; did you mean 'svm'?",
    ),
    "mistyped option": (
        train("'{\"epsilom\": 1}'"),
        f"train_model: unknown option 'epsilom', expected one of {NAMES}; did you mean 'epsilon'?",
    ),
    "option like none": (
        train("'{\"xylophone\": 1}'"),
        f"train_model: unknown option 'xylophone', expected one of {NAMES}",
    ),
    "option in another script": (
        train("'{\"日本é\": 1}'"),
        f"train_model: unknown option '日本é', expected one of {NAMES}",
    ),
    "unknown option to explain": (
        "SELECT explain_training('svm', y, x, '{\"step_\": 1}') FROM t",
        f"explain_training: unknown option 'step_', expected one of {NAMES}; did you mean 'step'?",
    ),
    "no JSON": (
        train("'l2=0.1'"),
        "train_model: options are not valid JSON at character 1: 'l2=0.1', "
        "expected an object such as '{\"l2\": 0.01}'",
    ),
    "unfinished JSON": (
        train("'{\"l2\": 0.1'"),
        "train_model: options are not valid JSON at character 11: '{\"l2\": 0.1', "
        "expected an object such as '{\"l2\": 0.01}'",
    ),
    "JSON that is no object": (
        train("'[1]'"),
        "train_model: options are '[1]', expected a JSON object such as '{\"l2\": 0.01}'",
    ),
    "an option twice": (
        train('\'{"l2": 1, "l1": 1, "l2": 2}\''),
        "train_model: options name 'l2' twice, expected each option once",
    ),
    "NaN option": (
        train("'{\"l2\": NaN}'"),
        "train_model: option 'l2' is NaN, expected a number of at least 0",
    ),
    "no l2 for dcd": (
        train('\'{"algorithm": "dcd"}\'', task="'svm'"),
        "train_model: option 'l2' is 0, algorithm 'dcd' needs a number greater than 0: "
        "without the penalty there is no dual",
    ),
    "dcd of another loss": (
        train('\'{"algorithm": "dcd", "l2": 0.1}\''),
        "train_model: algorithm 'dcd' is not available with task 'linear', it trains only "
        "svm, expected 'auto', 'newton', 'newton_cg', 'lbfgs', 'bgd', 'svrg', 'mgd', 'sgd', 'hogbatch' or 'hogwild'",
    ),
    "newton_cg of the hinge": (
        train('\'{"algorithm": "newton_cg"}\'', task="'svm'"),
        "train_model: algorithm 'newton_cg' is not available with task 'svm', the hinge has no "
        "curvature, expected 'auto', 'newton', 'lbfgs', 'bgd', 'dcd', 'svrg', 'mgd', 'sgd', 'hogbatch' or 'hogwild'",
    ),
    "weights of classes for numbers": (
        train('\'{"class_weight": "balanced"}\''),
        "train_model: option 'class_weight' is not available with task 'linear', which has no classes",
    ),
    "l1 for newton": (
        train('\'{"l1": 1, "algorithm": "newton"}\''),
        "train_model: option 'l1' is not available with algorithm 'newton': l1 > 0 "
        "leaves no curvature for newton, expected 'lbfgs', 'bgd', 'svrg', 'mgd', 'sgd', 'hogbatch', 'hogwild' or 'auto'",
    ),
    "line search for lbfgs": (
        train('\'{"schedule": "line_search", "algorithm": "lbfgs"}\''),
        "train_model: option 'schedule' changes nothing where option 'algorithm' is 'lbfgs', expected another than 'auto', 'newton', 'newton_cg', 'lbfgs' or 'dcd'",
    ),
    "warm start of another width": (
        train('\'{"warm_start": {"coef": [1, 2, 3]}}\''),
        "train_model: warm_start has 3 coefficients, expected 2 as the features",
    ),
    "options that change within a group": (
        train("CASE WHEN y > 1 THEN '{\"l2\": 1}' ELSE '{}' END"),
        "train_model: task and options must be the same in all rows of a group",
    ),
    "task that changes within a group": (
        train(task="CASE WHEN y > 1 THEN 'svm' ELSE 'linear' END"),
        "train_model: task and options must be the same in all rows of a group",
    ),
    "ragged rows": (
        train(ERROR, features="CASE WHEN y > 1 THEN x[:1] ELSE x END"),
        "train_model: row 2 of the group has 1 features, expected 2 as in the rows before it",
    ),
    "no features": (
        train(ERROR, features="x[:0]"),
        "train_model: row 1 of the group has no features, expected an array of at least one number",
    ),
    "NaN feature": (
        train(ERROR, features="CASE WHEN x[1] > 1 THEN [x[1], 'nan'] ELSE x END"),
        "train_model: feature 2 is NaN in row 2 of the group, expected a finite number (NULL skips a row)",
    ),
    "infinite feature": (
        train(ERROR, features="CASE WHEN x[1] > 2 THEN ['inf', x[2]] ELSE x END"),
        "train_model: feature 1 is infinity in row 3 of the group, expected a finite number (NULL skips a row)",
    ),
    "infinite FLOAT feature": (
        train(ERROR, features="['-inf'::FLOAT, 1::FLOAT]"),
        "train_model: feature 1 is -infinity in row 1 of the group, expected a finite number (NULL skips a row)",
    ),
    "NaN label": (
        train(ERROR, label="CASE WHEN y > 1 THEN 'nan' ELSE y END"),
        "train_model: label is NaN in row 2 of the group, expected a finite number (NULL skips a row)",
    ),
    "infinite label": (
        train(ERROR, label="'-inf'::DOUBLE"),
        "train_model: label is -infinity in row 1 of the group, expected a finite number (NULL skips a row)",
    ),
    "NaN after a skipped row": (
        train(
            ERROR,
            features="CASE WHEN x[1] = 1 THEN NULL WHEN x[1] > 2 THEN ['nan'::DOUBLE, 1] ELSE x END",
        ),
        "train_model: feature 1 is NaN in row 3 of the group, expected a finite number (NULL skips a row)",
    ),
    "three classes, svm": (
        train(ERROR, task="'svm'", label="x[1]"),
        "train_model: label is 4 in row 3 of a group whose labels were 1 and 2, 'svm' needs two classes",
    ),
    "negative id": (
        train(ERROR, features="sparse([0, -7], amounts)"),
        "train_model: indices[2] is -7 in row 1 of the group, expected a feature id from 0 to 9223372036854775807",
    ),
    "id too large": (
        train(ERROR, features="sparse([2147483647, 1], amounts)"),
        "train_model: a group has a feature id above 2147483646, the largest of a model that is not stored: give option 'store', which keeps weights of the ids that occur, or smaller ids, as hash_features makes them",
    ),
    "ids without values": (
        train(ERROR, features="sparse(ids, amounts[:1])"),
        "train_model: sparse() got 2 indices and 1 values in row 1 of the group, expected as many",
    ),
    "sparse NaN": (
        train(ERROR, features="sparse([4, 9], ['nan'::DOUBLE, 1])"),
        "train_model: feature 4 is NaN in row 1 of the group, expected a finite number (NULL skips a row)",
    ),
    "fewer features to predict": (
        f"SELECT predict({MODEL}, [1.0])",
        "predict: the model has 2 features, row has 1",
    ),
    "more features to predict": (
        f"SELECT decision({MODEL}, [1.0, 2.0, 3.0])",
        "decision: the model has 2 features, row has 3",
    ),
    "probability of a number": (
        f"SELECT predict_proba({MODEL}, [1.0, 2.0])",
        "predict_proba: model is 'linear', which gives no probabilities; use decision()",
    ),
    "negative id to predict": (
        f"SELECT predict({MODEL}, sparse([-1], [2.0]::DOUBLE[]))",
        "predict: feature id -1 is negative, ids start at 0",
    ),
    "id that is not whole": (
        "SELECT sparse([2, 1.5], [1.0, 1.0])",
        "sparse: indices[2] is 1.5, expected a whole feature id from 0 to 9223372036854775807",
    ),
    "id that is no number": (
        "SELECT sparse(['nan'::FLOAT], [1.0])",
        "sparse: indices[1] is NaN, expected a whole feature id from 0 to 9223372036854775807",
    ),
    "id beyond 63 bits": (
        "SELECT sparse([9223372036854775808], [1.0])",
        "sparse: indices[1] is 9.22337203685478e+18, expected a whole feature id from 0 to 9223372036854775807",
    ),
    "id as text": (
        "SELECT sparse(['7'], [1.0])",
        "sparse: indices is VARCHAR[], expected an array of whole numbers",
    ),
    "names without values": (
        "SELECT hash_features(['a', 'b'], [1.0], 8)",
        "hash_features: there are 2 names and 1 values, expected as many",
    ),
    "model of another version": (
        "SELECT predict(with_payload({'task': 'linear', 'coef': [1.0], 'intercept': 0.0, 'classes': NULL, "
        "'options': '{\"tuskml\":9}'}), [1.0])",
        f"model_payload: the model has format version 9, this tuskml {VERSION} reads version 1",
    ),
    "something else than a model": (
        "SELECT predict(with_payload({'task': 'linear', 'coef': [1.0], 'intercept': 0.0, 'classes': NULL, "
        "'options': '{}'}), [1.0])",
        "model_payload: the options of the model begin with '{}', expected '{\"tuskml\":1'",
    ),
    "too many bits": (
        "SELECT hash_features(['a'], 31)",
        "hash_features: bits is 31, expected 1 to 30",
    ),
    "label of log_loss": (
        "SELECT log_loss(y, 0.5) FROM t",
        "log_loss: label is 2, expected a boolean, 0 or 1, or -1 or +1",
    ),
    "three classes of auc": (
        "SELECT auc(x[1], y) FROM t",
        "auc: label takes a third value 4 after 1 and 2, expected two",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input(db: duckdb.DuckDBPyConnection, name: str) -> None:
    sql, expected = CASES[name]
    assert sentence(db, sql) == expected


@pytest.mark.parametrize("expression", [
    "train_model('linear', y, x, 5)", "train_model('linear', y)", "train_model('linear', y, 'wt')",
    "train_model('linear', y, [[1.0]])", "predict(y, x)",
])  # fmt: skip
def test_wrong_types_are_refused(db: duckdb.DuckDBPyConnection, expression: str) -> None:
    """tests/udas/duckdb/test_any_type.py has the sentences."""
    found = sentence(db, f"SELECT {expression} FROM t")
    assert found.startswith(("train_model got (", "Binder Error: No function matches"))


LITERALS = ["sparse([0, 1], [1.0, 2.0])", "sparse([0, 1], [1, 2])", "sparse(ids, [1.0, 2.0])"]


@pytest.mark.parametrize("features", LITERALS)
def test_sparse_literals_are_cast_as_dense_ones_are(
    db: duckdb.DuckDBPyConnection, features: str
) -> None:
    assert db.execute(train(features=features)).fetchall()[0][0]["n_rows"] == 3
    assert db.execute(f"SELECT predict({MODEL}, {features}) IS NOT NULL FROM t").fetchall()[0] == (
        True,
    )
