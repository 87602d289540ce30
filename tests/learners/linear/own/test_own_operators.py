"""Operators and algorithms of the user's own, through SQL and beside those that there are."""

import json
from dataclasses import replace

import duckdb
import numpy as np
import pytest
from fitting import fit, put
from own import POISSON, own_things
from scipy.optimize import minimize

import tuskml
from tuskml.errors import OptionError
from tuskml.learners.linear.operators import State

pytestmark = pytest.mark.native


@pytest.fixture(autouse=True)
def _registered():
    with own_things():
        yield


@pytest.fixture
def curved(con):
    """4,000 rows whose label is no linear function: which rows count most changes the optimum."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(4000, 2)) * [1.0, 2.0]
    y = x[:, 0] + 0.3 * x[:, 1] ** 2 + 0.1 * rng.normal(size=4000)
    put(con, x, y, k=np.arange(4000) % 3, c=rng.poisson(np.exp(0.4 * x[:, 0])))
    return x, y


class ByNorm:
    """Importance sampling by the norm of a row (Zhao and Zhang, 2015, section 4)."""

    weighted = True

    def __init__(self, setting):
        problem, self.size, self.random = setting.problem, setting.plan.batch_size, setting.random
        self.shares = []
        for g in range(problem.n_groups):
            sizes = np.concatenate(
                [
                    1 + np.linalg.norm((x - problem.shift[g]) * problem.scale[g], axis=1)
                    for _, x, _ in problem.chunks(g)
                ]
            )
            self.shares.append(sizes / sizes.sum())

    def __call__(self, problem, state):
        shares = [self.shares[g] for g in state.active]
        rows = [self.random.choice(len(p), self.size, p=p) for p in shares]
        weights = [1 / (len(p) * p[r]) for p, r in zip(shares, rows, strict=True)]
        return problem.take(rows, weights if self.weighted else None)


class ByNormUnweighted(ByNorm):
    weighted = False


def wide(x):
    return np.column_stack([x, np.ones(len(x))])


@pytest.mark.nightly
def test_a_sampler_ends_at_the_same_optimum(con, curved):
    x, y = curved
    tuskml.register_operator("sample", "importance", ByNorm)
    tuskml.register_operator("sample", "biased", ByNormUnweighted)
    exact = np.linalg.lstsq(wide(x), y, rcond=None)[0]
    options = {"max_iter": 150, "epsilon": 0, "batch_size": 256}
    model = fit(con, "linear", sampler="importance", **options)
    assert "sampler importance" in model.plan
    assert model.options["sampler"] == "importance"
    np.testing.assert_allclose([*model.coef, model.intercept], exact, atol=0.02)
    biased = fit(con, "linear", sampler="biased", **options)
    assert np.abs([*biased.coef, biased.intercept] - exact).max() > 0.1


def test_a_sampler_in_groups_with_a_task_of_ones_own(con, curved):
    tuskml.register_task("own_poisson", **POISSON)
    tuskml.register_operator("sample", "importance", ByNorm)
    options = {"sampler": "importance", "max_iter": 150, "epsilon": 1e-2, "batch_size": 128}
    query = "SELECT k, train_model('own_poisson', c, x, $1) FROM t GROUP BY k ORDER BY k"
    sampled = con.execute(query, [json.dumps(options)]).fetchall()
    exact = con.execute(query, ["{}"]).fetchall()
    assert [model["status"] for _, model in sampled] == ["ok"] * 3
    for (_, one), (_, other) in zip(sampled, exact, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-3)
        np.testing.assert_allclose(one["coef"], other["coef"], atol=0.03)


def test_mini_batches_train_a_task_of_ones_own(con, curved):
    x, _ = curved
    tuskml.register_task("own_poisson", **POISSON)
    c = np.array(con.execute("SELECT c FROM t ORDER BY rowid").fetchall())[:, 0]

    def objective(w):
        m = wide(x) @ w
        return (np.exp(m) - c * m).mean() + 0.05 * (w[:2] ** 2).sum()

    exact = minimize(objective, np.zeros(3), tol=1e-10).x
    con.execute("CREATE OR REPLACE TABLE t AS SELECT * REPLACE (c AS y) FROM t")
    options = {"algorithm": "mgd", "l2": 0.1, "epsilon": 3e-3, "max_iter": 200}
    model = fit(con, "own_poisson", **options)
    assert model.status == "ok"
    np.testing.assert_allclose([*model.coef, model.intercept], exact, atol=0.02)
    one, two = (fit(con, "own_poisson", threads=1, **options) for _ in range(2))
    assert one.coef.tobytes() == two.coef.tobytes()


def test_converge(con, curved):
    """A rule of one's own ends each group, and says that it converged."""

    @tuskml.register_operator("converge", "third")
    def make(setting):
        assert setting.replaced.epsilon == setting.plan.epsilon
        return lambda state, active, found: np.full(len(active), state.iteration == 2)

    for algorithm in ("bgd", "lbfgs", "svrg", "sgd", "hogbatch", "mgd"):
        model = fit(con, "linear", algorithm=algorithm, converge="third", epsilon=1e-12)
        assert (model.iterations, model.status) == (2, "ok"), algorithm
        assert model.options["converge"] == "third"
        assert "converge third" in model.plan
    auto = con.execute(
        "SELECT k, train_model('logistic', y > 0, x, '{\"converge\": \"third\"}') "
        "FROM t GROUP BY k"
    ).fetchall()
    assert {model["iterations"] for _, model in auto} == {2}
    plain = fit(con, "linear", algorithm="bgd", epsilon=1e-12)
    assert plain.iterations != 2


def test_every_operator_of_an_algorithm_is_honoured(con, curved):
    x, y = curved
    calls = []

    def noting(kind):
        def make(setting):
            def operator(*given):
                calls.append(kind)
                return setting.replaced(*given)

            return operator

        return make

    kinds = ("transform", "stage", "compute", "update", "converge", "loop")
    tuskml.register_algorithm("noting", "newton", **{kind: noting(kind) for kind in kinds})
    model = fit(con, "linear", algorithm="noting")
    assert set(calls) == set(kinds)
    exact = np.linalg.lstsq(wide(x), y, rcond=None)[0]
    np.testing.assert_allclose([*model.coef, model.intercept], exact, rtol=1e-6)
    assert model.plan.startswith("noting (of newton)")
    assert model.options["algorithm"] == "noting"


def test_loop(con, curved):
    tuskml.register_operator(
        "loop", "short", lambda setting: lambda state: state.iteration < 4 and state.running.any()
    )
    tuskml.register_algorithm("brief", "bgd", loop="short")
    model = fit(con, "linear", algorithm="brief", epsilon=1e-12)
    assert (model.iterations, model.status) == (4, "not converged")


def test_update(con, curved):
    """Heavy-ball momentum (Polyak, 1964) in the place of the gradient step."""
    x, y = curved

    def momentum(setting):
        def update(part, state, found):
            active = state.active
            last = state.memory.setdefault("move", np.zeros_like(state.v))
            last[active] = 0.5 * last[active] - 0.4 * found.gradient
            state.v[active] += last[active]

        return update

    tuskml.register_algorithm("heavy", "bgd", update=momentum)
    model = fit(con, "linear", algorithm="heavy", epsilon=1e-9)
    assert model.status == "ok"
    exact = np.linalg.lstsq(wide(x), y, rcond=None)[0]
    np.testing.assert_allclose([*model.coef, model.intercept], exact, rtol=1e-6)


def test_stage(con, curved):
    starts = []

    def far(setting):
        starts.append(setting.start)
        return lambda problem: State.at(setting.start + 3.0)

    tuskml.register_algorithm("far", "bgd", stage=far)
    model = fit(con, "linear", algorithm="far", epsilon=1e-9)
    plain = fit(con, "linear", algorithm="bgd", epsilon=1e-9)
    np.testing.assert_allclose(model.coef, plain.coef, rtol=1e-6)
    assert model.history[0] > plain.history[0]
    assert starts[0].shape == (1, 3)


def test_transform(con, curved):
    """Another scale changes the way, and not the objective."""
    tuskml.register_operator(
        "transform",
        "raw",
        lambda setting: (
            lambda problem: replace(
                problem, shift=np.zeros_like(problem.shift), scale=np.ones_like(problem.scale)
            )
        ),
    )
    for l2 in (0.0, 0.2):
        options = {"algorithm": "bgd", "epsilon": 1e-9, "l2": l2}
        raw, plain = (fit(con, "linear", transform=name, **options) for name in ("raw", "lazy"))
        np.testing.assert_allclose(raw.coef, plain.coef, rtol=1e-6)
        assert raw.loss == pytest.approx(plain.loss, rel=1e-9)
        assert raw.history != plain.history


# --- what users do wrong ---


def fails(setting):
    raise RuntimeError("no such\nthing")


def operator(answer):
    return lambda setting: lambda *given: answer


WRONG = [
    ("converge", operator([True, False]), "converge 'mine' returned .* expected an array of 1"),
    ("converge", operator(np.array([1.0])), "expected an array of 1 booleans"),
    ("converge", lambda s: lambda *g: g[7], "converge 'mine' raised IndexError: tuple index"),
    ("converge", fails, "converge 'mine' raised RuntimeError: no such thing in .*, line"),
    ("converge", operator, "converge 'mine' raised|expected"),
    ("converge", lambda s: 3, "converge 'mine' made 3, expected an operator that can be called"),
    ("loop", operator("yes"), "loop of algorithm 'a' returned 'yes', expected True or False"),
    ("stage", operator(None), "stage of algorithm 'a' returned None, expected a State"),
    ("compute", operator(1), "compute of algorithm 'a' returned 1, expected a Found"),
    (
        "update",
        lambda s: lambda part, state, found: state.v.fill(np.nan),
        "update of algorithm 'a' left weights that are not finite",
    ),
    ("transform", operator(0), "transform of algorithm 'a' returned 0, expected a Problem"),
    ("sample", operator(0), "sample 'mine' returned 0, expected what problem.take"),
    ("sample", lambda s: lambda p, t: p.take([[10**9]]), "rows has 1000000000, expected 0 to"),
]


@pytest.mark.parametrize(("kind", "make", "sentence"), WRONG)
def test_errors_in_an_operator_are_one_sentence(con, curved, kind, make, sentence):
    if kind in ("converge", "sample"):
        tuskml.register_operator(kind, "mine", make)
        options = {"algorithm": "mgd", {"sample": "sampler"}.get(kind, kind): "mine"}
    else:
        tuskml.register_algorithm("a", "bgd", **{kind: make})
        options = {"algorithm": "a"}
    with pytest.raises(duckdb.Error, match=sentence) as caught:
        fit(con, "linear", **options)
    assert "\n" not in str(caught.value)
    assert fit(con, "linear").status == "ok"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: tuskml.register_operator("sampel", "a", fails), "did you mean 'sample'?"),
        (lambda: tuskml.register_operator("sample", "sequential", fails), "name of tuskml's own"),
        (lambda: tuskml.register_operator("loop", "a", 3), "loop 'a' is 3, expected a function"),
        (lambda: tuskml.register_algorithm("bgd", "sgd"), "algorithm 'bgd' is a name of tuskml's"),
        (lambda: tuskml.register_algorithm("a", "newtn"), "did you mean 'newton'?"),
        (lambda: tuskml.register_algorithm("a", "sgd", sample=fails), "expected the base 'mgd'"),
        (lambda: tuskml.register_algorithm("a", "sgd", lop=fails), "did you mean 'loop'?"),
        (lambda: tuskml.register_algorithm("a", "sgd", loop="b"), "loop is 'b', expected a func"),
        (lambda: tuskml.register_algorithm("a", "sgd", loop=3), "loop of algorithm 'a' is 3"),
        (lambda: tuskml.unregister_operator("loop", "a"), "no loop 'a' is registered"),
        (lambda: tuskml.unregister_algorithm("a"), "no algorithm 'a' is registered"),
    ],
)
def test_what_cannot_be_registered(call, sentence):
    with pytest.raises(OptionError, match=sentence):
        call()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"algorithm": "fast"}, "'hogwild' or 'faster'; did you mean 'faster'?"),
        ({"sampler": "importnce"}, "'bernoulli' or 'importance'; did you mean 'importance'?"),
        ({"sampler": "importance", "algorithm": "lbfgs"}, "expected 'mgd' or 'auto'"),
    ],
)
def test_names_that_do_not_fit(con, curved, options, sentence):
    tuskml.register_operator("sample", "importance", ByNorm)
    tuskml.register_algorithm("faster", "bgd")
    with pytest.raises(duckdb.Error, match=sentence):
        fit(con, "linear", **options)


def test_what_is_forgotten_is_unknown(con, curved):
    tuskml.register_algorithm("a", "bgd")
    assert fit(con, "linear", algorithm="a").status == "ok"
    tuskml.unregister_algorithm("a")
    with pytest.raises(duckdb.Error, match="option 'algorithm' is \"a\""):
        fit(con, "linear", algorithm="a")
