"""Models against numbers from elsewhere: NIST, textbooks, statsmodels, scikit-learn, SciPy."""

import json

import numpy as np
import pytest
from fitting import fit, losses, objective, put
from scipy.optimize import linprog

pytestmark = pytest.mark.native

PATIENTS = np.array(
    [
        [1, 1, 70], [1, 1, 80], [1, 1, 50], [1, 0, 60], [1, 0, 40], [1, 0, 65], [1, 0, 75],
        [1, 0, 80], [1, 0, 70], [1, 0, 60], [0, 1, 65], [0, 1, 50], [0, 1, 45], [0, 1, 35],
        [0, 1, 40], [0, 1, 50], [0, 0, 55], [0, 0, 45], [0, 0, 50], [0, 0, 60],
    ],
    float,
)  # fmt: skip
"""second_attack, treatment, trait_anxiety: the logistic example of Apache MADlib's manual."""

NORRIS = np.array(
    [
        [0.1, 0.2], [338.8, 337.4], [118.1, 118.2], [888.0, 884.6], [9.2, 10.1], [228.1, 226.5],
        [668.5, 666.3], [998.5, 996.3], [449.1, 448.6], [778.9, 777.0], [559.2, 558.2], [0.3, 0.4],
        [0.1, 0.6], [778.1, 775.5], [668.8, 666.9], [339.3, 338.0], [448.9, 447.5], [10.8, 11.6],
        [557.7, 556.0], [228.3, 228.1], [998.0, 995.8], [888.8, 887.6], [119.6, 120.2], [0.3, 0.3],
        [0.6, 0.3], [557.6, 556.8], [339.3, 339.1], [888.0, 887.2], [998.5, 999.0], [778.9, 779.0],
        [10.2, 11.1], [117.6, 118.3], [228.9, 229.2], [668.4, 669.1], [449.2, 448.9], [0.2, 0.5],
    ]
)  # fmt: skip
"""y, x of the calibration of ozone monitors, NIST StRD, lower difficulty."""

WAMPLER3 = np.array(
    [760, -2042, 2111, -1684, 3888, 1858, 11379, 17560, 39287, 64382, 113159, 175108, 273291,
     400186, 581243, 811568, 1121004, 1506550, 2002767, 2611612, 3369180], float
)  # fmt: skip
"""y at x = 0..20, NIST StRD, higher difficulty: a polynomial of degree 5, all coefficients 1."""

WAMPLER3_STD_ERR = [
    2152.32624678170, 2363.55173469681, 779.343524331583, 101.475507550350, 5.64566512170752,
    0.112324854679312,
]  # fmt: skip

LONGLEY = [
    -3482258.63459582, 15.0618722713733, -0.0358191792925910, -2.02022980381683,
    -1.03322686717359, -0.0511041056535807, 1829.15146461355,
]  # fmt: skip
LONGLEY_STD_ERR = [
    890420.383607373, 84.9149257747669, 0.0334910077722432, 0.488399681651699,
    0.214274163161675, 0.226073200069370, 455.478499142212,
]  # fmt: skip
"""NIST StRD, higher difficulty: Longley's employment data, six nearly collinear series."""


def coefficients(model):
    """The intercept first, as in std_err and in the references."""
    return [model.intercept, *model.coef]


def log_likelihood(model):
    return -model.n_rows * model.loss


@pytest.mark.parametrize("algorithm", ["auto", "newton", "newton_cg", "lbfgs", "bgd"])
def test_patients(con, algorithm):
    """shared/data/README.md; recomputed with statsmodels, and in MADlib's manual to 5 digits."""
    put(con, PATIENTS[:, 1:], PATIENTS[:, 0])
    model = fit(con, "logistic", algorithm=algorithm, epsilon=1e-12)
    expected = [-6.363469941846, -1.024106052408, 0.119044916670]
    np.testing.assert_allclose(coefficients(model), expected, rtol=1e-9)
    std_err = [3.213904524734, 1.171080146495, 0.054979175575]
    np.testing.assert_allclose(model.std_err, std_err, rtol=1e-9)
    assert log_likelihood(model) == pytest.approx(-9.410182983851, rel=1e-12)
    assert (model.status, model.n_rows, model.classes) == ("ok", 20, [0.0, 1.0])


def test_patients_summary(con):
    """model_summary: statistic and p-value, as statsmodels prints them for the same fit."""
    import statsmodels.api as sm

    put(con, PATIENTS[:, 1:], PATIENTS[:, 0])
    rows = con.execute(
        "SELECT estimate, std_err, statistic, p_value "
        "FROM model_summary((SELECT train_model('logistic', y, x) FROM t))"
    ).fetchall()
    reference = sm.Logit(PATIENTS[:, 0], sm.add_constant(PATIENTS[:, 1:])).fit(disp=0, tol=1e-14)
    expected = np.column_stack(
        [reference.params, reference.bse, reference.tvalues, reference.pvalues]
    )
    np.testing.assert_allclose(rows, expected, rtol=1e-6)


@pytest.mark.parametrize("algorithm", ["auto", "lbfgs"])
def test_norris(con, algorithm):
    """NIST's certified values."""
    put(con, NORRIS[:, 1:], NORRIS[:, 0])
    model = fit(con, "linear", algorithm=algorithm, epsilon=1e-9)
    expected = [-0.262323073774029, 1.00211681802045]
    np.testing.assert_allclose(coefficients(model), expected, rtol=1e-10)
    std_err = [0.232818234301152, 0.429796848199937e-3]
    np.testing.assert_allclose(model.std_err, std_err, rtol=1e-10)
    residual = np.sqrt(2 * 36 * model.loss / 34)
    assert residual == pytest.approx(0.884796396144373, rel=1e-10)


@pytest.mark.parametrize(
    ("y", "coefficient", "digits"),
    [
        pytest.param([sum(x**k for k in range(6)) for x in range(21)], [1] * 6, 6, id="1"),
        pytest.param(
            [sum((x / 10) ** k for k in range(6)) for x in range(21)],
            [10.0**-k for k in range(6)],
            6,
            id="2",
        ),
        pytest.param(WAMPLER3, [1] * 6, 6, id="3"),
    ],
)
def test_wampler(con, y, coefficient, digits):
    """NIST's certified values: x, x^2, ... x^5 from 1 to 3,200,000, all unscaled."""
    x = np.arange(21.0)[:, None] ** np.arange(1, 6)
    put(con, x, np.array(y, float))
    model = fit(con, "linear")
    assert model.status == "ok"
    np.testing.assert_allclose(coefficients(model), coefficient, rtol=10.0**-digits)


def test_wampler3_standard_errors(con):
    put(con, np.arange(21.0)[:, None] ** np.arange(1, 6), WAMPLER3)
    model = fit(con, "linear")
    np.testing.assert_allclose(model.std_err, WAMPLER3_STD_ERR, rtol=1e-7)


def test_longley(con):
    """NIST's certified values; the data come with statsmodels."""
    from statsmodels.datasets import longley

    frame = longley.load_pandas()
    put(con, frame.exog.to_numpy(), frame.endog.to_numpy())
    model = fit(con, "linear")
    assert model.status == "ok"
    np.testing.assert_allclose(coefficients(model), LONGLEY, rtol=1e-8)
    np.testing.assert_allclose(model.std_err, LONGLEY_STD_ERR, rtol=1e-8)


@pytest.mark.parametrize("degree", [6, 7, 8, 10])
def test_beyond_double_precision_a_status_says_so(con, degree):
    """As NIST's Filip: powers of x in [-9, -3]. Right coefficients, or a status that warns."""
    x = np.linspace(-9, -3, 82)
    truth = np.ones(degree)
    features = x[:, None] ** np.arange(1, degree + 1)
    put(con, features, features @ truth)
    model = fit(con, "linear")
    right = np.allclose(model.coef, truth, rtol=1e-2)
    assert right or model.status in ("collinear features", "not converged")


def test_spector(con):
    """Greene, Econometric Analysis, 2003, table 21.1: logit of grades on PSI."""
    from statsmodels.datasets import spector

    frame = spector.load_pandas()
    put(con, frame.exog[["GPA", "TUCE", "PSI"]].to_numpy(), frame.endog.to_numpy())
    model = fit(con, "logistic", epsilon=1e-10)
    np.testing.assert_allclose(coefficients(model), [-13.021, 2.826, 0.095, 2.379], atol=5e-4)
    np.testing.assert_allclose(model.std_err, [4.931, 1.263, 0.142, 1.065], atol=5e-4)
    assert log_likelihood(model) == pytest.approx(-12.8896, abs=5e-5)


@pytest.mark.parametrize("name", ["spector", "fair"])
def test_logit_of_statsmodels(con, name):
    """Coefficients, standard errors and log-likelihood on data that come with statsmodels."""
    import statsmodels.api as sm

    frame = getattr(sm.datasets, name).load_pandas()
    x, y = frame.exog.to_numpy(), (frame.endog.to_numpy() > 0).astype(float)
    put(con, x, y)
    model = fit(con, "logistic", epsilon=1e-11)
    reference = sm.Logit(y, sm.add_constant(x)).fit(disp=0, method="newton", tol=1e-12)
    np.testing.assert_allclose(coefficients(model), reference.params, rtol=1e-7)
    np.testing.assert_allclose(model.std_err, reference.bse, rtol=1e-7)
    assert log_likelihood(model) == pytest.approx(reference.llf, rel=1e-11)


def test_ols_without_intercept(con):
    """statsmodels counts the degrees of freedom alike."""
    import statsmodels.api as sm

    rng = np.random.default_rng(0)
    x = rng.normal(loc=[0.0, 5.0, -5.0], size=(50, 3))
    y = x @ [1.0, 2.0, 3.0] + rng.normal(size=50)
    put(con, x, y)
    model = fit(con, "linear", fit_intercept=False)
    reference = sm.OLS(y, x).fit()
    np.testing.assert_allclose(model.coef, reference.params, rtol=1e-9)
    np.testing.assert_allclose(model.std_err[1:], reference.bse, rtol=1e-9)


@pytest.fixture(scope="module")
def diabetes():
    """442 patients, ten features in units of their own, disease after a year."""
    from sklearn.datasets import load_diabetes

    return load_diabetes(return_X_y=True, scaled=False)


@pytest.fixture(scope="module")
def cancer():
    """569 tumours, 30 standardised features, benign or malignant."""
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    return (x - x.mean(axis=0)) / x.std(axis=0), y.astype(float)


@pytest.mark.parametrize("algorithm", ["auto", "lbfgs", "bgd"])
@pytest.mark.parametrize("l2", [1e-3, 1.0, 100.0])
def test_ridge(con, diabetes, algorithm, l2):
    """scikit-learn's Ridge: ||y - Xw||^2 + alpha ||w||^2, so alpha is n l2."""
    from sklearn.linear_model import Ridge

    x, y = diabetes
    put(con, x, y)
    model = fit(con, "linear", algorithm=algorithm, l2=l2, epsilon=1e-11, max_iter=20_000)
    reference = Ridge(alpha=len(y) * l2, solver="svd").fit(x, y)
    np.testing.assert_allclose(model.coef, reference.coef_, rtol=1e-6, atol=1e-9)
    assert model.intercept == pytest.approx(reference.intercept_, rel=1e-8)


@pytest.mark.parametrize(("l1", "l2"), [(2.0, 0.0), (0.1, 0.0), (1.0, 0.5)])
def test_lasso_and_elastic_net(con, diabetes, l1, l2):
    """scikit-learn's ElasticNet has the same objective, with alpha = l1 + l2."""
    from sklearn.linear_model import ElasticNet

    x, y = diabetes
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    put(con, x, y)
    model = fit(con, "linear", l1=l1, l2=l2, epsilon=1e-10)
    alpha = l1 + l2
    reference = ElasticNet(alpha=alpha, l1_ratio=l1 / alpha, tol=1e-14, max_iter=100_000).fit(x, y)
    np.testing.assert_allclose(model.coef, reference.coef_, atol=1e-6)
    assert ((model.coef == 0) == (reference.coef_ == 0)).all()


@pytest.mark.parametrize("algorithm", ["auto", "newton", "lbfgs"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_l2_logistic(con, cancer, algorithm, class_weight):
    """scikit-learn's LogisticRegression: C is 1 / (n l2)."""
    from sklearn.linear_model import LogisticRegression

    x, y = cancer
    put(con, x, y)
    options = {"l2": 0.01, "epsilon": 1e-10, "algorithm": algorithm}
    options |= {"class_weight": class_weight} if class_weight else {}
    model = fit(con, "logistic", **options)
    reference = LogisticRegression(
        C=1 / (len(y) * 0.01), solver="newton-cholesky", tol=1e-12, class_weight=class_weight
    ).fit(x, y)
    np.testing.assert_allclose(model.coef, reference.coef_[0], atol=1e-7)
    assert model.intercept == pytest.approx(reference.intercept_[0], abs=1e-7)
    call = f"train_model('logistic', y, x, '{json.dumps(options)}')"
    con.execute(f"CREATE TABLE m AS SELECT {call} AS m FROM t")
    found = con.execute("SELECT predict_proba(m, x) AS p FROM t, m").fetchnumpy()["p"]
    np.testing.assert_allclose(found, reference.predict_proba(x)[:, 1], atol=1e-6)


@pytest.mark.parametrize("l1", [0.1, 0.02])
def test_l1_logistic(con, cancer, l1):
    """scikit-learn's saga: C is 1 / (n l1), the intercept free of penalty as ours."""
    from sklearn.linear_model import LogisticRegression

    x, y = cancer
    put(con, x, y)
    model = fit(con, "logistic", l1=l1, epsilon=1e-10)
    reference = LogisticRegression(
        C=1 / (len(y) * l1), l1_ratio=1, solver="saga", tol=1e-10, max_iter=20_000, random_state=0
    ).fit(x, y)
    np.testing.assert_allclose(model.coef, reference.coef_[0], atol=1e-5)
    assert ((model.coef == 0) == (reference.coef_[0] == 0)).all()
    assert model.intercept == pytest.approx(reference.intercept_[0], abs=1e-5)


@pytest.mark.parametrize("l2", [0.1, 1e-3])
@pytest.mark.parametrize("algorithm", ["auto", "lbfgs", "dcd"])
def test_svm_with_l2(con, cancer, l2, algorithm):
    """libsvm, by scikit-learn: 1/2 ||w||^2 + C sum(hinge), free intercept; C = 1 / (n l2)."""
    from sklearn.svm import SVC

    x, y = cancer
    put(con, x, y)
    reference = SVC(kernel="linear", C=1 / (len(y) * l2), tol=1e-8).fit(x, y)
    best = losses("svm", reference.decision_function(x), y)[0].mean()
    best += l2 / 2 * (reference.coef_**2).sum()
    model = fit(con, "svm", l2=l2, algorithm=algorithm)
    assert model.status == "ok"
    assert best * (1 - 1e-6) <= model.loss <= best + 1e-5
    np.testing.assert_allclose(model.coef, reference.coef_[0], atol=0.02)


def hinge_by_linear_program(x, y, l1):
    """The least mean hinge loss + l1 ||w||_1: w = p - q and slacks, all at least 0 but b."""
    n, d = x.shape
    sign = np.where(y == 1, 1, -1)[:, None]
    cost = np.concatenate([np.full(2 * d, l1), [0], np.full(n, 1 / n)])
    above = -np.hstack([sign * x, -sign * x, sign, np.eye(n)])
    free = [(0, None)] * (2 * d) + [(None, None)] + [(0, None)] * n
    return linprog(cost, A_ub=above, b_ub=-np.ones(n), bounds=free, method="highs").fun


@pytest.mark.parametrize("algorithm", ["auto", "lbfgs", "bgd"])
@pytest.mark.parametrize("l1", [0.0, 0.05])
def test_svm_without_l2(con, algorithm, l1):
    """A linear program, solved by HiGHS in SciPy; also with the default options."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(150, 3)) * [1.0, 10.0, 0.1]
    y = (x @ [1.0, -0.1, 5.0] + rng.logistic(size=150) > 0.5).astype(float)
    put(con, x, y)
    model = fit(con, "svm", l1=l1, algorithm=algorithm)
    best = hinge_by_linear_program(x, y, l1)
    assert model.status == "ok"
    assert model.loss == pytest.approx(objective("svm", x, y, model, l1=l1), rel=1e-9)
    assert best * (1 - 1e-9) <= model.loss <= best + 1e-5


@pytest.fixture(scope="module")
def adult(data):
    """a9a as scipy CSR and labels."""
    from sklearn.datasets import load_svmlight_file

    x, y = load_svmlight_file(str(data / "a9a.svm"), zero_based=True)
    return x, y


@pytest.mark.sample(2)
@pytest.mark.parametrize("algorithm", ["auto", "lbfgs", "newton_cg"])
@pytest.mark.parametrize("storage", ["FLOAT", "DOUBLE"])
def test_adult_as_sparse_rows(con, adult, algorithm, storage):
    """32,560 rows, 123 binary features: scikit-learn's newton-cg on the same objective."""
    from sklearn.linear_model import LogisticRegression

    x, y = adult
    cuts = x.indptr[1:-1]
    put(con, np.split(x.data, cuts), y, storage=storage, ids=np.split(x.indices, cuts))
    options = {"algorithm": algorithm, "l2": 1e-3, "epsilon": 1e-9}
    model = fit(con, "logistic", features="sparse(ids, x)", **options)
    reference = LogisticRegression(
        C=1 / (len(y) * 1e-3), solver="newton-cg", tol=1e-9, max_iter=1000
    ).fit(x, y)
    assert (model.status, model.n_rows, model.n_features) == ("ok", 32_560, x.shape[1])
    np.testing.assert_allclose(model.coef, reference.coef_[0], atol=1e-5)
    assert model.intercept == pytest.approx(reference.intercept_[0], abs=1e-5)
