"""Users and items that are text, UUIDs or large numbers, in both databases: the model of names is that
of the places that its dictionary gives them.
"""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROWS = """SELECT i, 'user ' || (i * 7919) % 31 AS u, CAST(md5(CAST((i * 10473) % 47 AS VARCHAR)) AS UUID) AS f,
    1 + CAST((i * 31) % 5 AS DOUBLE PRECISION) AS y, i % 2 AS g, 1000000000000 + (i * 7919) % 31 AS big
    FROM generate_series(1, 400) AS r(i)"""
KINDS = {
    "ratings": '{"rank": 4}',
    "no biases": '{"rank": 4, "biases": false}',
    "implicit": '{"rank": 4, "feedback": "implicit"}',
    "bpr": '{"rank": 4, "feedback": "implicit", "loss": "bpr"}',
}


@pytest.fixture
def ask(session: tuple[str, Any]) -> Any:
    """Answers of a database to SQL, with a table of ratings by names."""
    name, connection = session
    temporary = "TEMP " if name == "post" else ""
    connection.execute(f"CREATE {temporary}TABLE t AS {ROWS}")
    return lambda sql: connection.execute(sql).fetchall()


def by_names(options: str = "{}", columns: str = "t.u, t.f", where: str = "true") -> str:
    return (
        f"(SELECT train_model('matrix_factorization', y, x, '{options}') AS m FROM t, "
        f"LATERAL (SELECT {columns}) AS x WHERE {where})"
    )


def dictionary(ask: Any, model: str) -> list[list[str]]:
    """The users and the items of a model, in the order of their vectors."""
    ((text,),) = ask(f"SELECT (m).preparation FROM {model} AS models")
    return [column["levels"] for column in json.loads(text)["columns"]]


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_their_places_in_the_dictionary(ask: Any, kind: str) -> None:
    options = KINDS[kind]
    named = by_names(options)
    users, items = dictionary(ask, named)
    assert sorted(users) == sorted(u for (u,) in ask("SELECT DISTINCT u FROM t"))
    values = ", ".join(
        f"({y}, {users.index(u)}, {items.index(str(f))})"
        for u, f, y in ask("SELECT u, f, y FROM t")
    )
    numbered = f"(SELECT train_model('matrix_factorization', y, ARRAY[u, f], '{options}') AS m FROM (VALUES {values}) AS v(y, u, f))"
    fields = "(m).coef, (m).intercept, (m).loss, (m).classes"
    assert ask(f"SELECT {fields} FROM {named} AS n") == ask(
        f"SELECT {fields} FROM {numbered} AS n"
    )
    predicted = "SELECT t.u, CAST(t.f AS VARCHAR), predict(m, x) FROM {} AS n, t, LATERAL (SELECT t.u, t.f) AS x WHERE t.i < 9 ORDER BY t.i"
    for u, f, score in ask(predicted.format(named)):
        pair = f"ARRAY[{users.index(u)}, {items.index(f)}]"
        assert ask(f"SELECT predict(m, {pair}) FROM {numbered} AS n") == [(score,)]
    best = ask(f"SELECT item, score, basis FROM recommend({numbered}, {users.index('user 3')}, 5)")
    assert ask(f"SELECT item, score, basis FROM recommend({named}, 'user 3', 5)") == [
        (items[item], *others) for item, *others in best
    ]
    near = ask(f"SELECT item, score FROM similar_items({numbered}, 2, 5)")
    assert ask(f"SELECT item, score FROM similar_items({named}, '{items[2]}', 5)") == [
        (items[item], score) for item, score in near
    ]


def test_ids_of_a_row_may_be_uuids_and_large_numbers(ask: Any) -> None:
    model = by_names(columns="t.f, t.big")
    first = ask(
        f"SELECT CAST(t.f AS VARCHAR), r.item FROM {model} AS n, t, LATERAL recommend(m, t.f, 1) AS r WHERE i = 1"
    )
    ((f, item),) = first
    assert ask(f"SELECT item FROM recommend({model}, '{f}', 1)") == [(item,)]
    assert int(item) >= 10**12
    turned = by_names(columns="t.big, t.i % 7 AS k")
    ((item,),) = ask(f"SELECT item FROM recommend({turned}, 1000000000003, 1)")
    assert item in range(7)
    assert ask(
        f"SELECT item FROM recommend({turned}, 1000000000003, 1, exclude => ARRAY[{item}])"
    ) != [(item,)]
    assert ask(f"SELECT item FROM recommend({turned}, '1000000000003', 1)") == [(str(item),)]
    assert ask(
        f"SELECT item FROM recommend_by_items({turned}, ARRAY[0, 1, 2, 3, 4, 5], ARRAY[1, 2, 3, 4, 5, 5])"
    ) == [(6,)]


def test_each_group_has_a_dictionary_of_its_own(ask: Any) -> None:
    for group in (0, 1):
        users, items = dictionary(ask, by_names(where=f"g = {group}"))
        assert set(users) == {u for (u,) in ask(f"SELECT u FROM t WHERE g = {group}")}
        assert set(items) == {
            f for (f,) in ask(f"SELECT CAST(f AS VARCHAR) FROM t WHERE g = {group}")
        }


@pytest.mark.parametrize("kind", KINDS)
def test_names_that_were_not_in_the_training(ask: Any, kind: str) -> None:
    """predict and recommend say the same, and an unknown item adds nothing."""
    model = by_names(KINDS[kind])
    found = ask(f"SELECT item, score FROM recommend({model}, 'nobody', 3)")
    asked = "SELECT predict(m, x) FROM {} AS n, LATERAL (SELECT 'nobody' AS u, CAST('{}' AS UUID) AS f) AS x"
    for item, score in found:
        assert ask(asked.format(model, item))[0][0] == pytest.approx(score, rel=1e-9)
    nothing = ask(asked.format(model, "00000000-0000-0000-0000-000000000000"))
    assert nothing == ask(f"SELECT (m).intercept FROM {model} AS n")


def test_many_names_with_few_ratings_each_are_no_mistake(ask: Any) -> None:
    """Other tasks say that categories hardly repeat."""
    model = by_names(columns="t.u || t.i AS u, t.f")
    assert ask(f"SELECT (m).status, (m).note, (m).classes[1] FROM {model} AS n") == [
        ("ok", None, 400)
    ]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("recommend({}, 3)", "recommend: the items of the model are texts such as"),
        ("similar_items({}, 3)", ""),
        ("recommend_by_items({}, ARRAY['a'], ARRAY[1, 2])", "recommend_by_items: 1 items and 2 ratings, expected as many of both"),
    ],
)  # fmt: skip
def test_refusals(ask: Any, call: str, sentence: str) -> None:
    if not sentence:  # no item is called 3
        assert ask(f"SELECT * FROM {call.format(by_names())}") == []
        return
    with pytest.raises(Exception, match="recommend") as caught:
        ask(f"SELECT * FROM {call.format(by_names())}")
    assert sentence in str(caught.value)


def test_numbers_that_doubles_round_are_refused(ask: Any) -> None:
    """Other numbers would be the same as them."""
    model = by_names(columns="CAST(t.i + 9007199254740992 AS DOUBLE PRECISION) AS u, t.f")
    ((status, plan),) = ask(f"SELECT (m).status, (m).plan FROM {model} AS n")
    assert (status, "make it BIGINT or text" in plan) == ("invalid rows", True)
    exact = by_names(columns="t.i + 9007199254740992 AS u, t.f")
    assert ask(f"SELECT (m).status, (m).classes[1] FROM {exact} AS n") == [("ok", 400)]
    with pytest.raises(Exception, match=r"user is .*, whose type rounds ids of 2\^53 and more"):
        ask(f"SELECT * FROM recommend({exact}, CAST(9007199254740993 AS DOUBLE PRECISION))")


WIDE = {"bigint": (-(2**63), 2**63 - 1), "numeric(38, 0)": (10**38 - 10**9, 10**38 - 1)}


@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.sampled_from(sorted(WIDE)), st.sampled_from(sorted(KINDS)))
def test_large_ids_are_exact(ask: Any, data: st.DataObject, kind: str, options: str) -> None:
    """Ids of which some differ in the last bit, or digit, train and answer as small ones do."""
    low, high = WIDE[kind]
    some = data.draw(st.lists(st.integers(low, high - 1), min_size=11, max_size=11, unique=True))
    ids = sorted({*some, *(one + 1 for one in some)})
    values = ", ".join(
        f"(CAST('{ids[i * 7 % len(ids)]}' AS {kind}), CAST('{ids[i * i % len(ids)]}' AS {kind}), "
        f"{i * 7 % len(ids)}, {i * i % len(ids)}, {1 + i * 31 % 5})"
        for i in range(120)
    )
    rows = f"(SELECT * FROM (VALUES {values}) AS v(u, f, a, b, y)) AS v"

    def train(columns: str) -> str:
        return (
            f"(SELECT train_model('matrix_factorization', y, x, '{KINDS[options]}') AS m "
            f"FROM {rows}, LATERAL (SELECT {columns}) AS x)"
        )

    large, small = train("u, f"), train("a AS u, b AS f")
    fields = "(m).status, (m).coef, (m).intercept, (m).loss"
    found = ask(f"SELECT {fields} FROM {large} AS n")
    assert found == ask(f"SELECT {fields} FROM {small} AS n")
    assert found[0][0] != "invalid rows"
    predicted = "SELECT predict(m, x) FROM {} AS n, {}, LATERAL (SELECT {}) AS x"
    assert ask(predicted.format(large, rows, "u, f") + " ORDER BY a, b, y") == ask(
        predicted.format(small, rows, "a AS u, b AS f") + " ORDER BY a, b, y"
    )
    items = sorted({i * i % len(ids) for i in range(120)})
    user, rated = 7, items[1]
    best = ask(f"SELECT item, score FROM recommend({small}, {user}, 4, exclude => ARRAY[{rated}])")
    named = f"recommend({large}, '{ids[user]}', 4, exclude => ARRAY['{ids[rated]}'])"
    assert ask(f"SELECT item, score FROM {named}") == [(str(ids[i]), s) for i, s in best]
    if kind == "bigint":
        named = f"recommend({large}, CAST('{ids[user]}' AS bigint), 4, exclude => ARRAY[CAST('{ids[rated]}' AS bigint)])"
        assert ask(f"SELECT item, score FROM {named}") == [(ids[i], s) for i, s in best]
    if options == "bpr":  # which folds no user in
        return
    near = ask(f"SELECT item, score FROM recommend_by_items({small}, ARRAY[{rated}], ARRAY[5], 4)")
    folded = f"recommend_by_items({large}, ARRAY['{ids[rated]}'], ARRAY[5], 4)"
    assert ask(f"SELECT item, score FROM {folded}") == [(str(ids[i]), s) for i, s in near]
