"""Models whose sizes nobody trained are refused before anything of that size is made."""

import pytest

TRAINED = (
    "(SELECT train_model('{task}', i, ARRAY[i, i % 3], '{{\"{option}\": 2}}') AS fitted "
    "FROM generate_series(1, 40) AS t(i)) AS s"
)
SIZES = (-1, 17_000_000, 10**12, 2**63 - 1)


def forged(database: str, field: str, value: str) -> str:
    """The model `fitted` with another value of a field."""
    if database == "duck":
        return f"struct_update(fitted, {field} := {value})"
    return f"jsonb_populate_record(fitted, jsonb_build_object('{field}', {value}))"


@pytest.mark.parametrize("function", ["feature_importance", "tree_dump"])
@pytest.mark.parametrize("size", SIZES)
def test_as_many_features_as_no_trees_have(session, function, size):
    name, connection = session
    model = forged(name, "n_features", f"CAST({size} AS bigint)")
    source = TRAINED.format(task="gbdt", option="trees")
    query = f"SELECT count(*) FROM {source}, LATERAL {function}({model}) AS f"
    with pytest.raises(Exception, match=f"{function}: the model has {size} features, expected"):
        connection.execute(query)


@pytest.mark.parametrize(
    ("label", "size", "own"),
    [("i", 16_777_216, 1_000_000), *(("i * i % 7", size, 2) for size in (0, 1, 16_777_216))],
)
def test_other_features_than_the_trees_have(session, label, size, own):
    """There would be a row for each. Leaves of more rows than there are make no trees."""
    name, connection = session
    source = TRAINED.format(task="gbdt", option="trees").replace("'gbdt', i,", f"'gbdt', {label},")
    least = 5 if label != "i" else 1_000_000
    source = source.replace('"trees": 2', f'"trees": 2, "min_child_rows": {least}')
    model = forged(name, "n_features", f"CAST({size} AS bigint)")
    query = f"SELECT count(*) FROM {source}, LATERAL feature_importance({model}) AS f"
    sentence = f"the model has {size} features, and its trees have {own} at most:"
    with pytest.raises(Exception, match=sentence):
        connection.execute(query)


@pytest.mark.parametrize("function", ["feature_importance", "tree_dump"])
def test_a_wide_model_that_is_not_of_trees(session, function):
    name, connection = session
    model = forged(name, "n_features", f"CAST({10**12} AS bigint)")
    source = TRAINED.format(task="linear", option="max_iter")
    query = f"SELECT count(*) FROM {source}, LATERAL {function}({model}) AS f"
    with pytest.raises(Exception, match=f"{function}: the model is 'linear', expected a model of"):
        connection.execute(query)


@pytest.mark.parametrize("n_trees", [1e9, 3.0, -2.0])
@pytest.mark.parametrize("size", [1e15, -1e6])
def test_more_nodes_than_numbers(session, n_trees, size):
    """Of each size there are as many rows as there are nodes at most."""
    name, connection = session
    numbers = f"ARRAY[2, {n_trees}, 0, {size}, {size}, {size}, -1, 2.5, 0, 0, 40, 0]"
    coef = f"CAST({numbers} AS double precision[])"
    model = forged(name, "coef", coef if name == "duck" else f"to_jsonb({coef})")
    source = TRAINED.format(task="gbdt", option="trees")
    query = f"SELECT count(*) FROM {source}, LATERAL tree_dump({model}) AS f"
    rows, told = 0, "out of range"
    try:
        ((rows,),) = connection.execute(query).fetchall()
    except Exception as error:
        told = str(error)
    assert "out of range" in told
    assert rows <= 2
