"""recommend and similar_items in both databases: the best items, by NumPy from the model's vectors."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import numpy as np
import pytest

ROWS = """SELECT i, CAST(2 * ((i * 7919) % 31) AS DOUBLE PRECISION) AS u, CAST((i * 10473) % 47 AS DOUBLE PRECISION) AS f,
    1 + CAST((i * 31) % 5 AS DOUBLE PRECISION) AS y FROM generate_series(1, 400) AS r(i)"""
KINDS = {
    "implicit": '{"feedback": "implicit", "rank": 4}',
    "ratings": '{"rank": 4}',
    "no biases": '{"rank": 4, "biases": false}',
}
N_USERS, N_ITEMS = 61, 47
"""Users have even ids."""


@pytest.fixture
def ask(session: tuple[str, Any]) -> Any:
    """Answers of a database to SQL, with a table of ratings and one of models by kind."""
    name, connection = session
    temporary = "TEMP " if name == "post" else ""
    connection.execute(f"CREATE {temporary}TABLE t AS {ROWS}")
    each = " UNION ALL ".join(
        f"SELECT '{kind}' AS kind, train_model('matrix_factorization', y, ARRAY[u, f], '{options}') AS m FROM t"
        for kind, options in KINDS.items()
    )
    connection.execute(f"CREATE {temporary}TABLE models AS {each}")
    return lambda sql: connection.execute(sql).fetchall()


def vectors(ask: Any, kind: str) -> tuple[float, np.ndarray, np.ndarray]:
    """The mean of a model, and the vectors of users and items with their biases first."""
    ((mean, coef),) = ask(f"SELECT (m).intercept, (m).coef FROM models WHERE kind = '{kind}'")
    both = np.array(coef).reshape(N_USERS + N_ITEMS, -1)
    if kind != "ratings":
        both = np.pad(both, ((0, 0), (1, 0)))
    return mean, both[:N_USERS], both[N_USERS:]


def best(scores: np.ndarray, n: int, without: Any = ()) -> list[tuple[int, float]]:
    order = [i for i in np.argsort(-scores, kind="stable") if i not in without]
    return [(int(i), pytest.approx(scores[i], rel=1e-9, abs=1e-12)) for i in order[:n]]


def model(kind: str) -> str:
    return f"(SELECT m FROM models WHERE kind = '{kind}')"


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_items_of_a_user(ask: Any, kind: str) -> None:
    mean, users, items = vectors(ask, kind)
    scores = mean + users[6, 0] + items[:, 0] + items[:, 1:] @ users[6, 1:]
    found = ask(f"SELECT item, score, basis FROM recommend({model(kind)}, 6, 12)")
    assert [row[:2] for row in found] == best(scores, 12)
    assert {basis for _, _, basis in found} == {"user"}
    whole = ask(f"SELECT item, score FROM recommend({model(kind)}, 6, 1000)")
    assert whole == best(scores, N_ITEMS)
    predicted = ask(
        f"SELECT predict(m, ARRAY[6.0, {whole[0][0]}]) FROM models WHERE kind = '{kind}'"
    )
    assert predicted[0][0] == pytest.approx(whole[0][1], rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("user", [7, 61, 10**12])
def test_an_unknown_user_gets_what_is_best_for_all(ask: Any, kind: str, user: int) -> None:
    """User 7 has an id between others, without rows."""
    mean, users, items = vectors(ask, kind)
    average = np.zeros(4) if kind == "ratings" else users[users.any(axis=1), 1:].mean(axis=0)
    scores = mean + items[:, 0] + items[:, 1:] @ average
    found = ask(f"SELECT item, score, basis FROM recommend({model(kind)}, {user}, 5)")
    assert [row[:2] for row in found] == best(scores, 5)
    predicted = ask(
        f"SELECT predict(m, ARRAY[{user}, {found[0][0]}]::double precision[]) FROM models WHERE kind = '{kind}'"
    )
    assert predicted[0][0] == pytest.approx(found[0][1], rel=1e-9)
    assert {row[2] for row in found} == {
        "biases of items" if kind == "ratings" else "mean of users"
    }


def test_items_to_exclude(ask: Any, session: tuple[str, Any]) -> None:
    """Ids that are none and NULL do not matter; a list of what was seen comes from a query."""
    _, users, items = vectors(ask, "implicit")
    scores = items[:, 1:] @ users[6, 1:]
    first = [item for item, _ in best(scores, 3)]
    found = ask(
        f"SELECT item, score FROM recommend({model('implicit')}, 6, 5, exclude => ARRAY[{first[0]}, NULL, {first[2]}, -1, 99999]::double precision[])"
    )
    assert found == best(scores, 5, {first[0], first[2]})
    seen = {int(f) for (f,) in ask("SELECT f FROM t WHERE u = 6")}
    listed = (
        "(SELECT list(f) FROM t WHERE u = 6)"
        if session[0] == "duck"
        else "ARRAY(SELECT f FROM t WHERE u = 6)"
    )
    found = ask(
        f"SELECT item, score FROM recommend({model('implicit')}, 6, 100, exclude => {listed})"
    )
    assert found == best(scores, 100, seen)
    assert len(found) == N_ITEMS - len(seen)
    none = ask(f"SELECT item FROM recommend({model('implicit')}, 6, 5, exclude => NULL)")
    assert [item for (item,) in none] == [item for item, _ in best(scores, 5)]


def test_many_users_in_one_statement(ask: Any) -> None:
    found = ask(
        "SELECT u, kind, r.item FROM (SELECT DISTINCT u FROM t) AS users CROSS JOIN models, LATERAL recommend(m, u, 2) AS r ORDER BY kind, u, r.score DESC"
    )
    assert len(found) == 2 * 31 * len(KINDS)
    _, users, items = vectors(ask, "implicit")
    for u in (0, 6, 60):
        wanted = [item for item, _ in best(items[:, 1:] @ users[u, 1:], 2)]
        assert [item for user, kind, item in found if (user, kind) == (u, "implicit")] == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_similar_items_by_the_cosine_of_their_factors(ask: Any, kind: str) -> None:
    _, _, items = vectors(ask, kind)
    factors = items[:, 1:]
    lengths = np.linalg.norm(factors, axis=1)
    cosines = factors @ factors[3] / (lengths * lengths[3])
    assert ask(f"SELECT item, score FROM similar_items({model(kind)}, 3, 7)") == best(
        cosines, 7, {3}
    )
    found = ask(
        f"SELECT item, score FROM similar_items({model(kind)}, 3, 100, exclude => ARRAY[4, 5])"
    )
    assert found == best(cosines, 100, {3, 4, 5})
    assert ask(f"SELECT item, score FROM similar_items({model(kind)}, 47, 7)") == []


ITEMS, RATINGS = [5, 17, 30, 17, 46], [5.0, 1.0, 4.0, 2.0, 3.0]
"""Those of a new user, who rates one item twice."""


def penalties(ask: Any, kind: str) -> tuple[float, float]:
    """The default penalties of biases and of factors; the latter are in units of the ratings."""
    ((text, deviation),) = ask(
        f"SELECT (m).options, (SELECT stddev_pop(y) FROM t) FROM models WHERE kind = '{kind}'"
    )
    options = json.loads(text)
    assert options["l2_biases"] == 0.07
    assert options["l2_factors"] == pytest.approx(0.07 * deviation, rel=1e-6)
    return options["l2_biases"], options["l2_factors"]


def folded(ask: Any, kind: str, known: Any = ITEMS, given: Any = RATINGS) -> np.ndarray:
    """The scores of all items for a new user, by NumPy's solution of the normal equations."""
    mean, _, items = vectors(ask, kind)
    q, r = items[known, 1:], np.array(given)
    if kind == "implicit":
        both = {i: r[np.array(known) == i].sum() for i in known}
        q, r = items[list(both), 1:], np.array(list(both.values()))
        every = items[:, 1:]
        matrix = every.T @ every + (q.T * r) @ q + 10 * np.eye(4)
        return items[:, 1:] @ np.linalg.solve(matrix, q.T @ (1 + r))
    of_biases, of_factors = penalties(ask, kind)
    if kind == "no biases":
        matrix = q.T @ q + len(r) * of_factors * np.eye(4)
        return items[:, 1:] @ np.linalg.solve(matrix, q.T @ (r - mean))
    design = np.column_stack([np.ones(len(r)), q])
    penalty = np.diag([of_biases, *[of_factors] * 4])
    matrix = design.T @ design + len(r) * penalty
    x = np.linalg.solve(matrix, design.T @ (r - mean - items[known, 0]))
    return mean + items[:, 0] + x[0] + items[:, 1:] @ x[1:]


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_user_is_folded_in_from_his_ratings(ask: Any, kind: str) -> None:
    """Koren, Bell and Volinsky 2009 and Hu, Koren and Volinsky 2008, equation 4."""
    call = (
        f"recommend_by_items({model(kind)}, ARRAY{ITEMS}, ARRAY{RATINGS}, 12, exclude => ARRAY[0])"
    )
    found = ask(f"SELECT item, score, basis FROM {call}")
    assert [row[:2] for row in found] == best(folded(ask, kind), 12, {0, *ITEMS})
    assert {row[2] for row in found} == {"ratings"}


def test_a_user_of_the_training_is_nearly_what_his_ratings_say(ask: Any) -> None:
    """The last step of als solved for items: solved again from these, a user hardly moves."""
    mine = ask("SELECT f, y FROM t WHERE u = 6")
    items, ratings = [int(f) for f, _ in mine], [y for _, y in mine]
    again = folded(ask, "ratings", items, ratings)
    mean, users, vectors_of_items = vectors(ask, "ratings")
    own = mean + users[6, 0] + vectors_of_items[:, 0] + vectors_of_items[:, 1:] @ users[6, 1:]
    call = f"recommend_by_items({model('ratings')}, ARRAY{items}, ARRAY{ratings}, 3)"
    assert ask(f"SELECT item, score FROM {call}") == best(again, 3, set(items))
    assert np.abs(again - own).max() < 0.1 * own.std()


def test_items_that_are_unknown_or_null_say_nothing(ask: Any) -> None:
    rated = "ARRAY[5, NULL, 99999, 17]::bigint[], ARRAY[4, 5, 5, NULL]::double precision[]"
    found = ask(f"SELECT item, score FROM recommend_by_items({model('ratings')}, {rated}, 5)")
    assert found == best(folded(ask, "ratings", [5], [4.0]), 5, {5})
    for known, n in (("ARRAY[99999]", 1), ("ARRAY[]::bigint[]", 0)):
        call = f"recommend_by_items({model('ratings')}, {known}, ARRAY{[1.0] * n}::double precision[], 4)"
        found = ask(f"SELECT item, basis FROM {call}")
        stranger = ask(f"SELECT item, basis FROM recommend({model('ratings')}, 7, 4)")
        assert found == stranger
    nothing = f"recommend_by_items({model('ratings')}, NULL::bigint[], NULL::double precision[])"
    assert ask(f"SELECT * FROM {nothing}") == []


def test_items_without_rows_are_no_answers(ask: Any) -> None:
    """Item 1 of 0 and 2."""
    found = ask(
        """SELECT item FROM recommend((SELECT train_model('matrix_factorization', 1, ARRAY[u, CASE WHEN f > 20 THEN 0 ELSE 2 END], '{"feedback": "implicit"}') FROM t), 2)"""
    )
    assert sorted(item for (item,) in found) == [0, 2]


def test_nulls_have_no_items(ask: Any) -> None:
    for call in (
        "recommend((SELECT m FROM models WHERE kind = 'none'), 3)",
        f"recommend({model('ratings')}, NULL)",
        f"similar_items({model('ratings')}, NULL)",
    ):
        assert ask(f"SELECT * FROM {call}") == []


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("recommend({model}, 2.5)", "recommend: user is 2.5, expected an integer id from 0 on"),
        ("recommend({model}, -1)", "recommend: user is -1, expected an integer id from 0 on"),
        ("similar_items({model}, -1)", "similar_items: item is -1, expected an integer id from 0 on"),
        ("recommend_by_items({model}, ARRAY[1, 2], ARRAY[1.0])", "recommend_by_items: 2 items and 1 ratings, expected as many of both"),
        ("recommend_by_items({implicit}, ARRAY[1], ARRAY[-1.0])", "recommend_by_items: a rating is -1, expected a number of 0 or more, as the feedback of the training"),
        ("recommend_by_items({bpr}, ARRAY[1], ARRAY[1.0])", "recommend_by_items: the model has option 'loss': 'bpr'"),
        ("recommend({model}, 1, 0)", "recommend: n is 0, expected a number from 1 on"),
        ("recommend((SELECT train_model('linear', y, ARRAY[u]) FROM t), 1)", "recommend: the model has no users and items, expected one of 'matrix_factorization'"),
    ],
)  # fmt: skip
def test_refusals(ask: Any, call: str, sentence: str) -> None:
    bpr = """(SELECT train_model('matrix_factorization', y, ARRAY[u, f], '{"feedback": "implicit", "loss": "bpr", "max_iter": 1}') FROM t)"""
    given = call.format(model=model("ratings"), implicit=model("implicit"), bpr=bpr)
    with pytest.raises(Exception, match=r"recommend|similar_items") as caught:
        ask(f"SELECT * FROM {given}")
    assert sentence in str(caught.value)
    assert getattr(caught.value, "sqlstate", "22023") in ("22023", None)
