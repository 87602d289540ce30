"""`feature_frequencies` and `partition_model`: the offline stage of stored models, in SQL.

Truth is SQL's own `unnest ... GROUP BY`, and the partitioner called from Python.
"""

# ruff: noqa: E501, SQL is read better on one line

import base64
import json
from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from clients import WIDE, Client
from planted import cliques

import tuskml
from tuskml.errors import DataError
from tuskml.groups.partition import FREQUENCY_OPTIONS, PARTITION_OPTIONS
from tuskml.partitioner import IndexMap, partition_model

LAYOUT = '{"top": 40, "t_seek": 1e-6, "t_unit": 1e-7}'


def counted(client: Client, rest: str = "FROM clicks") -> Counter:
    """How often each feature occurs, by SQL itself."""
    return Counter(
        dict(
            client.run(
                f"SELECT id, count(*) FROM (SELECT unnest(ids) AS id {rest}) AS t GROUP BY id"
            )
        )
    )


def ranked(counts: Counter) -> list[tuple[int, int]]:
    """Most frequent first, equal ones by rising id."""
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))


def rows_of(client: Client, rest: str = "FROM clicks") -> list[list[int]]:
    return [row[0] for row in client.run(f"SELECT ids {rest}")]


def index_of(layout: dict) -> IndexMap:
    return IndexMap.from_bytes(base64.b64decode(layout["index_map"], validate=True))


# --- feature_frequencies ---


def test_frequencies_are_sql_s_own(client: Client) -> None:
    expected = [(feature, n, n, n) for feature, n in ranked(counted(client))]
    assert client.call("feature_frequencies", "ids") == expected
    assert client.call("feature_frequencies", "ids", "'{\"top\": 12}'") == expected[:12]
    assert client.call("feature_frequencies", "CAST(ids AS BIGINT[])") == expected


def test_frequencies_are_a_table(client: Client) -> None:
    found = client.run(
        "SELECT (f).feature, (f).estimate FROM (SELECT unnest(feature_frequencies(ids)) AS f FROM clicks) AS t"
    )
    assert Counter(dict(found)) == counted(client)


def test_frequencies_of_many_groups(client: Client) -> None:
    """More groups than a batch takes."""
    found = client.run(
        "SELECT i, (f).feature, (f).estimate FROM (SELECT i % 2500 AS i, unnest(feature_frequencies(ids)) AS f FROM clicks GROUP BY i % 2500) AS t"
    )
    expected = client.run(
        "SELECT i, id, count(*) FROM (SELECT i % 2500 AS i, unnest(ids) AS id FROM clicks) AS t GROUP BY i, id"
    )
    assert sorted(found) == sorted(expected)


def test_bounds_of_the_sketch_hold(duck: Client) -> None:
    true = counted(duck, "FROM wide")
    found = duck.call("feature_frequencies", "ids", rest="FROM wide")
    assert len(true) > 40_000
    assert len(found) == 1000
    assert all(lower <= true[feature] <= upper for feature, _, lower, upper in found)
    assert all(lower <= estimate <= upper for _, estimate, lower, upper in found)
    error = max(upper - lower for _, _, lower, upper in found)
    assert error > 0
    certain = {feature for feature, n in true.items() if n > error}
    assert certain == set(range(50))
    assert certain <= {feature for feature, *_ in found}


# --- partition_model ---


def test_the_index_map_is_the_partitioner_s(client: Client) -> None:
    rows = rows_of(client)
    starts = np.cumsum([0, *map(len, rows)])
    cost = tuskml_cost(1e-6, 1e-7)
    made = partition_model(starts, np.concatenate(rows), top=40, cost=cost)
    by_id = json.dumps(json.loads(LAYOUT) | {"layout": "id"})
    layout = client.call("partition_model", "ids", f"'{by_id}'")
    assert index_of(layout) == made.index
    top = [feature for feature, _ in ranked(counted(client))[:40]]
    assert index_of(layout).features.tolist() == sorted(top)
    assert (layout["features"], layout["partitions"]) == (40, made.index.n_partitions)
    assert layout["block_sizes"] == list(made.index.blocks.sizes)
    assert (layout["rows_seen"], layout["rows_sampled"], layout["rows_skipped"]) == (3000, 3000, 0)


def tuskml_cost(t_seek: float, t_unit: float) -> Any:
    from tuskml.partitioner import Cost

    return Cost(t_seek, t_unit)


def test_requests_are_those_of_the_rows(client: Client) -> None:
    """Distinct features a row before, distinct keys a row after."""
    layout = client.call("partition_model", "ids", f"'{LAYOUT}'")
    index = index_of(layout)
    rows = rows_of(client)
    before = np.mean([len(set(row)) for row in rows])
    after = np.mean([len(set(index.locate(row)[0].tolist())) for row in rows])
    assert layout["requests_before"] == pytest.approx(before)
    assert layout["requests_after"] == pytest.approx(after)
    assert layout["saved"] == pytest.approx(1 - after / before)
    assert after < before
    assert f"{before:,.2f}" in layout["explanation"]
    assert "3,000, of which 3,000 are counted" in layout["explanation"]


@pytest.mark.parametrize("n", [1000, 40_000])
def test_cliques_stay_whole_by_default(here: duckdb.DuckDBPyConnection, n: int) -> None:
    """Planted cliques of 8 features, all of one frequency, under shuffled ids; 5 of them a row."""
    rows, _ = cliques(n, 8, per_row=5, times=max(1, 40_000 // n))
    lists = pa.ListArray.from_arrays(rows.starts.astype(np.int32), rows.ids.astype(np.int32))
    here.register("together", pa.table([lists], ["ids"]))

    def requests(**options: Any) -> tuple[float, float]:
        call = f"partition_model(ids, '{json.dumps(options)}')"
        made = here.execute(f"SELECT {call} FROM together").fetchall()[0][0]
        return made["requests_before"], made["requests_after"]

    before, after = requests()
    assert before > 39
    assert after <= 5.5
    assert requests(top=1000, layout="affinity") == (before, after), "the defaults"
    assert requests(layout="id", block=1)[1] > 30
    top = "feature_frequencies(ids, '{\"top\": 5}')"
    assert here.execute(f"SELECT len({top}) FROM together").fetchall() == [(5,)]


def test_rows_are_sampled(client: Client) -> None:
    def layout(seed: int) -> dict:
        return client.call(
            "partition_model", "ids", f'\'{{"sample": 200, "seed": {seed}, "batch_rows": 10}}\''
        )

    assert (layout(0)["rows_seen"], layout(0)["rows_sampled"]) == (3000, 200)
    assert layout(0) == layout(0)
    assert layout(0)["requests_before"] != layout(1)["requests_before"]


def test_rows_without_ids(client: Client) -> None:
    nothing = "CAST(ARRAY[] AS INTEGER[])"
    assert client.call("feature_frequencies", nothing) == []
    layout = client.call("partition_model", nothing)
    assert (layout["features"], layout["requests_before"], layout["saved"]) == (0, 0, 0)
    assert layout["rows_seen"] == 3000
    assert index_of(layout) == IndexMap.by_rule()
    assert client.run("SELECT partition_model(ids) IS NULL FROM clicks WHERE i < 0") == [(True,)]
    null = "CASE WHEN i % 2 = 0 THEN ids ELSE ids || ARRAY[CAST(NULL AS INTEGER)] END"
    layout = client.call("partition_model", null)
    assert (layout["rows_seen"], layout["rows_skipped"]) == (1500, 1500)


# --- the same whatever the way ---


@pytest.mark.parametrize(
    "arguments",
    [
        ("feature_frequencies", "ids", "'{\"top\": 30}'"),
        ("partition_model", "ids", f"'{LAYOUT}'"),
        ("partition_model", "ids", '\'{"sample": 100, "seed": 7, "batch_rows": 10}\''),
        ("partition_model", "ids", '\'{"top": 0, "block": 64}\''),
    ],
)
def test_both_databases_agree(duck: Client, post: Client, arguments: tuple[str, ...]) -> None:
    one, other = duck.call(*arguments), post.call(*arguments)
    assert one == other
    assert list(one) == list(other)


@pytest.mark.parametrize("order", ["i DESC", "(i * 7919) % 10007"])
def test_the_order_of_rows_does_not_matter(duck: Client, order: str) -> None:
    """Not even where the sketch forgets, rows are sampled, and batches are formed."""
    options = '\'{"sample": 500, "batch_rows": 7}\''
    rest = f"FROM (SELECT ids FROM wide ORDER BY {order}) AS t"
    for call in (("feature_frequencies", "ids"), ("partition_model", "ids", options)):
        assert duck.call(*call, rest=rest) == duck.call(*call, rest="FROM wide")


def test_parallel_workers_change_nothing(post: Client, session: Any) -> None:
    calls = [("feature_frequencies", "ids"), ("partition_model", "ids", "'{\"sample\": 300}'")]
    usual = [post.call(*call) for call in calls]
    grouped = "SELECT site, partition_model(ids)::text FROM clicks GROUP BY site ORDER BY site"
    by_site = post.run(grouped)
    settings = ("parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size")
    try:
        for name in settings:
            session.execute(f"SET {name} = 0")
        plan = post.run("EXPLAIN SELECT partition_model(ids) FROM clicks")
        assert any("Partial Aggregate" in line for (line,) in plan)
        assert [post.call(*call) for call in calls] == usual
        assert post.run(grouped) == by_site
    finally:
        session.execute("RESET ALL")


@pytest.mark.nightly
def test_spilled_rows_give_the_same(tmp_path: Any) -> None:
    with tuskml.connect(threads=2) as con:
        con.execute(WIDE)
        statement = "SELECT feature_frequencies(ids), partition_model(ids) FROM wide"
        usual = con.execute(statement).fetchall()
        con.execute("SELECT tuskml_set_memory(?, ?)", [1 << 20, str(tmp_path)]).fetchall()
        assert con.execute(statement).fetchall() == usual
        use = con.execute("SELECT tuskml_memory()").fetchall()[0][0]
    assert use["peak"] > use["budget"]
    assert (use["resident"], use["spilled"]) == (0, 0)


# --- errors ---

INVALID = {
    "feature_frequencies": {"top": (0, "a whole number from 1 to 4194304")},
    "partition_model": {
        "top": (40_000, "a whole number from 0 to 32768"),
        "sample": (0, "a whole number from 1 to 1048576"),
        "seed": (-1, "a whole number from 0 to 9007199254740992"),
        "batch_rows": (1.5, "a whole number from 1 to 1048576"),
        "block": ("auto", "a whole number from 1 to 65536 or null"),
        "layout": ("paper", "'affinity' or 'id'"),
        "name": (
            "../up",
            "a name of at most 63 letters, digits and _ . -, not starting with . or - or null",
        ),
        "list": (1, "true or false"),
        "t_seek": (0, "a number greater than 0"),
        "t_unit": (-1e-9, "a number of at least 0"),
    },
}


def test_each_option_has_its_error() -> None:
    assert list(INVALID["feature_frequencies"]) == list(FREQUENCY_OPTIONS)
    assert list(INVALID["partition_model"]) == list(PARTITION_OPTIONS)


@pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name in INVALID for option in INVALID[name]]
)
def test_invalid_options(client: Client, name: str, option: str) -> None:
    value, allowed = INVALID[name][option]
    told = client.sentence(f"SELECT {name}(ids, '{json.dumps({option: value})}') FROM clicks")
    assert told == f"{name}: option '{option}' is {json.dumps(value)}, expected {allowed}"


def test_default_options_may_be_given(client: Client) -> None:
    defaults = {name: option.default for name, option in PARTITION_OPTIONS.items()}
    given = client.call("partition_model", "ids", f"'{json.dumps(defaults)}'")
    assert given == client.call("partition_model", "ids")
    assert given == client.call("partition_model", "ids", "NULL")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            "feature_frequencies(ids, '{\"tap\": 1}')",
            "feature_frequencies: unknown option 'tap', expected one of top; did you mean 'top'?",
        ),
        (
            "partition_model(ids, '[]')",
            "partition_model: options are '[]', expected a JSON object such as '{\"l2\": 0.01}'",
        ),
        (
            "partition_model(ids, CASE WHEN i < 3000 THEN '{}' ELSE '{\"top\": 1}' END)",
            "partition_model: options must be the same in all rows of a group",
        ),
        (
            "feature_frequencies(ARRAY[3, -1])",
            "feature_frequencies: indices[2] is -1 in row 1 of the group, expected a feature id from 0 to 9223372036854775807",
        ),
        (
            'partition_model(ARRAY[2147483647], \'{"layout": "affinity"}\')',
            "partition_model: a group has a feature id above 2147483646, the largest of option 'layout': 'affinity': give smaller ids, as hash_features makes them",
        ),
    ],
)
def test_errors(client: Client, call: str, told: str) -> None:
    assert client.sentence(f"SELECT {call} FROM clicks") == told


def test_arrays_that_are_no_lists_of_ids(post: Client) -> None:
    told = "feature_frequencies: indices is text[], expected an array of integer or bigint"
    assert post.sentence("SELECT feature_frequencies(ARRAY['a'])") == told
    told = "partition_model: indices has 2 dimensions, expected a list of numbers"
    assert post.sentence("SELECT partition_model(ARRAY[[1, 2], [3, 4]])") == told
    assert post.call("feature_frequencies", "ARRAY[i % 2, 5]::SMALLINT[]")[0] == (5, *[3000] * 3)


@pytest.mark.parametrize(
    ("n", "frame"),
    [
        (30, "ORDER BY i ROWS 40 PRECEDING"),
        *product([30, 2100], ["PARTITION BY i % 3"]),
        (30, "ORDER BY i"),
        pytest.param(2100, "ORDER BY i ROWS 40 PRECEDING", marks=pytest.mark.nightly),
        pytest.param(3000, "ORDER BY i", marks=pytest.mark.nightly),
    ],
)
def test_a_window_is_right_or_refused(
    here: duckdb.DuckDBPyConnection, survives: Callable[..., None], frame: str, n: int
) -> None:
    over = f"OVER ({frame})"
    sql = f"SELECT partition_model([i]) {over}.rows_seen, count(*) {over} FROM range({n}) t(i)"
    survives(sql)
    try:
        rows = here.execute(sql).fetchall()
    except duckdb.Error as error:
        refused = "cannot be used as a window function" in str(error)
        assert refused or "need DuckDB 2.0" in str(error)  # noqa: PT017
    else:
        assert len(rows) == n
        assert all(seen == expected for seen, expected in rows)


@pytest.mark.parametrize("member", [3, 20, -1])
@pytest.mark.fault(family="damaged files")
def test_a_damaged_index_map_is_refused(duck: Client, member: int) -> None:
    data = bytearray(
        base64.b64decode(duck.call("partition_model", "ids", "'{\"top\": 3}'")["index_map"])
    )
    data[member] ^= 1
    with pytest.raises(DataError):
        IndexMap.from_bytes(bytes(data))
