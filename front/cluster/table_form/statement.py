"""SQL's `train(...)` on the workers of a cluster: the text of its statement.

DuckDB requests the text while it plans (`databases/duckdb_rounds.py`), before any training. When
the statement runs, `_tusk_send_rows` trains and answers with the groups (`running.py`), and
`_tusk_take_model` returns their models.

The caller's own statement cannot pass its rows on, so another connection to its database writes
them for the workers. It may see different ones: it has no temporary tables, settings of its own,
and not the rows of an open transaction. So both compute a hash of all rows, and different rows are
an error.
"""

import json
from collections.abc import Sequence
from typing import Any

import duckdb

from tuskml.api.call import (
    ColumnTexts,
    ExecutorChoice,
    Training,
    parse_task,
    pop_explain,
    pop_pooled_and_place,
)
from tuskml.api.pooling import pooled_query
from tuskml.cluster.table_form.running import FAILED, Running
from tuskml.cluster.training import refuse_stored
from tuskml.databases.connection import ensure_macros
from tuskml.databases.database import is_row, kind_of
from tuskml.databases.duckdb import DuckDB
from tuskml.databases.duckdb_rounds import (
    FILES,
    QUERY,
    ReadingConnection,
    columns_by_name,
    extras_of,
    relation_of,
    statement,
)
from tuskml.databases.limits import external_access, is_own_cluster, usual_cluster
from tuskml.databases.sources import Source
from tuskml.errors import DataError, OptionError, TuskError
from tuskml.groups.execution.choosing import check_place, place_given
from tuskml.learners.learner import ALL
from tuskml.learners.receiving import standing
from tuskml.learners.registry import of_classes
from tuskml.text.expressions import quote_name, shorten, split_alias, unquote

ARGUMENTS = ("executor", "placement", "worker_timeout", "finished")
"""Arguments of `tuskml.train` that are options in SQL, in addition to `cluster`."""
SEEN = 2**52
"""Sums of hashes are taken modulo this, so that a double has them."""
ELSEWHERE = (
    "a training on a cluster reads its source by another connection of the database, which has no "
    "temporary tables and no rows that a transaction has not committed"
)


def train_statement(
    cursor: duckdb.DuckDBPyConnection, account: int, given: Sequence[str]
) -> str | None:
    """The text of `train(...)` on a cluster, of groups that are pooled, on some row groups or by
    name; None for all rows.
    """
    found = pooled_statement(cursor, given) or on_workers(cursor, account, given)
    return found or statement(cursor, given)


def pooled_statement(cursor: duckdb.DuckDBPyConnection, given: Sequence[str]) -> str | None:
    """The statement of groups that learn from each other, or that fails with the reason; None
    without the option `pooled`.
    """
    texts = list(given)
    options = {number: options_in(texts[number]) for number in (4, 7)}
    if "pooled" not in options[4]:
        return None
    database, pooled = ReadingConnection(cursor), False
    try:
        for number, one in options.items():
            pooled, _ = pop_pooled_and_place(one, one.get("executor"))
            texts[number] = json.dumps(one, ensure_ascii=False)
        ensure_macros(cursor)
        training = training_of(database, texts)
        query = pooled_query if pooled else Training.query
        return query(training, database, column="_tusk_trained")
    except TuskError as error:
        return refusal(database, f"train: {error}", json.loads(texts[-1]))


def options_in(text: str) -> dict[str, Any]:
    """The options of a JSON object; none of another text, of which the training says so."""
    try:
        options = json.loads(text or "{}")
    except ValueError:
        return {}
    return options if isinstance(options, dict) else {}


def on_workers(
    cursor: duckdb.DuckDBPyConnection, account: int, given: Sequence[str]
) -> str | None:
    """The statement that trains on a cluster, or that fails with the reason; None if no option
    or default requires one. given: as for `duckdb_rounds.statement`.
    """
    place, texts = without_place(given)
    place = place or usual_place(cursor, account, texts)
    if not place:
        return None
    database = ReadingConnection(cursor)
    try:
        ensure_macros(cursor)
        where = choose_place(cursor, account, place)
        return statement_of(database, account, where, texts)
    except TuskError as error:
        lost = isinstance(error, DataError) and "does not exist" in str(error)
        why = f"train: {error}{f' ({ELSEWHERE})' if lost else ''}"
        return refusal(database, why, json.loads(texts[-1]))


def refusal(database: DuckDB, why: str, keys: Sequence[str]) -> str:
    """A statement with the columns of the requested one, which fails with this sentence.

    It fails in a condition, since DuckDB computes no unused column.
    """
    names = [quote_name(split_alias(key)[1] or unquote(key.strip())) for key in keys]
    columns = ", ".join([*(f"NULL AS {name}" for name in names), "model AS _tusk_trained"])
    return (
        f"SELECT {columns} FROM (SELECT tuskml_train_model('linear', 0.0, [0.0]) AS model) "
        f"WHERE CAST(error({database.text(why)}) AS BOOLEAN)"
    )


def without_place(given: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Removes the place from the options; returns it, and the texts without it."""
    texts, place = list(given), {}
    for number in (4, 7):
        try:
            options = json.loads(texts[number] or "{}")
        except ValueError:
            return {}, texts  # the training reports the error
        if not isinstance(options, dict):
            return {}, texts
        place = {name: options.pop(name) for name in ARGUMENTS if name in options}
        before = len(options)
        named = place_given(None, options)
        if len(options) < before:
            place["cluster"] = named
        if place and pop_explain(texts[1], options):
            place["explain"] = True
        texts[number] = json.dumps(options, ensure_ascii=False) if options else ""
    return place, texts


def usual_place(
    cursor: duckdb.DuckDBPyConnection, account: int, texts: Sequence[str]
) -> dict[str, Any]:
    """The cluster that the program has opened the database for, if the statement trains groups of
    Parquet files, as `tuskml.train` has it; nothing for other trainings.
    """
    usual = usual_cluster(account)
    if usual is None or not FILES.fullmatch(texts[0]) or not json.loads(texts[-1]):
        return {}
    stored = '"store"' in texts[4]
    return {} if stored or not external_access(cursor) else {"cluster": usual}


def choose_place(
    cursor: duckdb.DuckDBPyConnection, account: int, place: dict[str, Any]
) -> ExecutorChoice:
    """Returns where to train. Raises OptionError for a place that a statement cannot choose.

    A statement may come from a view of any file. So it starts no Ray and connects to no address,
    unless the program has opened the database for that cluster.
    """
    if "finished" in place:
        raise OptionError(
            "option 'finished' is a folder of tuskml.train and tuskml train, and statements write "
            "to none: leave it out"
        )
    if "executor" in place and "cluster" in place:
        raise OptionError("options 'executor' and 'cluster' are both given, expected one of them")
    if not external_access(cursor):
        raise OptionError(
            "option 'cluster' is given, and the database may not use files and networks: "
            "enable_external_access is false"
        )
    chosen = place.get("executor", place.get("cluster"))
    if chosen is None:
        name = next(iter(place))
        raise OptionError(f"option '{name}' is given without cluster, expected cluster too")
    chosen = check_place(chosen)
    if chosen != "threads" and not is_own_cluster(account, chosen):
        raise OptionError(
            f"option 'cluster' is {chosen!r}, and the database was not opened for this cluster, "
            f"expected tuskml.connect(cluster={chosen!r}) in Python, or 'threads'"
        )
    timeout, explain = place.get("worker_timeout"), place.get("explain", False)
    return ExecutorChoice(chosen, place.get("placement"), None, timeout, explain)


def statement_of(
    database: DuckDB, account: int, where: ExecutorChoice, texts: Sequence[str]
) -> str:
    """The statement. Raises TuskError for invalid parts."""
    training = training_of(database, texts)
    refuse_stored(training)
    types = []
    if training.keys:
        query = f"SELECT {keys_of(training)} {rows(training)}"
        types = [kind for _, kind in database.columns(query)]
    seen = "0" if training.source.files else hash_rows(training)
    running = Running(account, where, training, None if training.source.files else seen)
    handle = database.text(standing(running.train, ALL))
    columns = [
        f"CAST(tusk_group.k[{place}] AS {kind}) AS {quote_name(name)}"
        for place, ((name, _), kind) in enumerate(zip(training.keys, types, strict=True), 1)
    ]
    shape = database.text('[{"k": ["VARCHAR"], "n": "BIGINT", "label": "DOUBLE"}]')
    hash_query = f"SELECT ({seen})::DOUBLE AS tusk_seen" + (
        "" if training.source.files else f" {rows(training)}"
    )
    models = database.text(running.models)
    columns.append(f"_tusk_take_model({models}, tusk_group.label, [0.0::DOUBLE]) AS _tusk_trained")
    return (
        f"WITH tusk_ran AS MATERIALIZED (SELECT _tusk_send_rows({handle}, "
        f"tusk_seen, [0.0::DOUBLE]) AS said FROM ({hash_query})), "
        f"tusk_groups AS (SELECT unnest(from_json(CASE WHEN said[1] = '{FAILED}' THEN "
        f"error('train: ' || said[2:]) ELSE said END, {shape})) AS tusk_group FROM tusk_ran) "
        f"SELECT {', '.join(columns)} FROM tusk_groups GROUP BY tusk_group"
    )


def training_of(database: DuckDB, texts: Sequence[str]) -> Training:
    """The training that the statement without a cluster makes, by the same expressions."""
    text, task, label, features, options, weight, offset, with_names, keys = texts
    files = FILES.fullmatch(text)
    relation = f"read_parquet([{text}]) AS source" if files else f"{relation_of(text)} AS source"
    paths = (files[1].replace("''", "'"),) if files else ()
    name = "the query" if QUERY.match(text) else "".join(paths) or f"table {text.strip()}"
    source = Source(relation, name, files=paths, table=not QUERY.match(text))
    found = columns_by_name(database, texts)
    features, options = found or (features, with_names or options)
    query = f"SELECT ({label}) AS y, ({features}) AS x FROM {source.sql}"
    (_, label_kind), (_, kind) = database.columns(query)
    if kind_of(label_kind) in ("boolean", "category"):
        options = of_classes(task, options or "{}", kind_of(label_kind) == "boolean")
    call = parse_task(task, options or "{}")
    return Training(
        call,
        source,
        label if call.labels else "NULL",
        features,
        tuple(keys_by_name(database, source, json.loads(keys))),
        options or "{}",
        0 if is_row(kind) else None,
        ColumnTexts((features,), label, tuple(json.loads(keys))),
        kind_of(label_kind) if call.labels else "number",
        tuple(extras_of(weight, offset)),
    )


def keys_by_name(database: DuckDB, source: Source, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Names and SQL of the keys, by the names that DuckDB gives them."""
    if not texts:
        return []
    listed = ", ".join(f"{text}\n" for text in texts)
    names = [name for name, _ in database.columns(f"SELECT {listed} FROM {source.sql}")]
    if len(names) != len(texts):
        raise DataError(
            f"group_by has {len(texts)} keys, which are {len(names)} columns: name them, "
            f"{shorten(', '.join(names))}"
        )
    return [(name, f"({split_alias(text)[0]}\n)") for name, text in zip(names, texts, strict=True)]


def keys_of(training: Training) -> str:
    """The keys as columns."""
    return ", ".join(f"{sql} AS {quote_name(name)}" for name, sql in training.keys)


def rows(training: Training) -> str:
    """Returns the FROM clause of the training rows."""
    return f"FROM {training.source.sql}"


def hash_rows(training: Training) -> str:
    """A number that is another one for other rows, whatever their order."""
    listed = [sql for _, sql in training.keys]
    listed += [training.label, training.features, *training.extras]
    hashes = f"sum(hash({', '.join(listed)}))"
    return f"(coalesce({hashes}, 0)::HUGEINT + count(*)) % {SEEN}"
