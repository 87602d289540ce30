"""`tuskml.train`: a training on a table, a query or Parquet files, from Python.

It writes the query of the aggregate `train_model` that a person would write, so options, numbers
and model values are those of SQL.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

from tuskml.api.argument_checks import (
    check_into,
    label_given,
    refuse_leaks,
    refuse_repeated,
    refuse_replace,
    refuse_same_names,
    refuse_unknown,
)
from tuskml.api.call import (
    ColumnTexts,
    ExecutorChoice,
    TaskCall,
    Training,
    parse_task,
    pop_explain,
    pop_pooled_and_place,
)
from tuskml.api.collecting import collect_models
from tuskml.api.pooling import pooled_query
from tuskml.databases.database import Database, kind_of
from tuskml.databases.duckdb import DuckDB
from tuskml.databases.duckdb_row_groups import row_groups_of, width
from tuskml.databases.opening import open_database
from tuskml.databases.postgres import Postgres
from tuskml.databases.results import Into, keep
from tuskml.databases.sources import (
    FilePath,
    Rows,
    Source,
    find_source,
    rows_of,
    scope_of,
    split_expressions,
)
from tuskml.errors import OptionError
from tuskml.groups import records
from tuskml.lazy import lazy_function
from tuskml.learners.models import Names
from tuskml.learners.options.by_name import by_name
from tuskml.learners.options.table import MAX_TEXT
from tuskml.learners.receiving import handle_of
from tuskml.learners.registry import learner_of, of_classes
from tuskml.learners.row_groups import RowGroups
from tuskml.model.group_models import Models
from tuskml.model.model import Model
from tuskml.text.calls import with_clear_errors


@overload
def train(
    connection: object,
    task: str,
    *,
    source: Rows,
    label: str | None = None,
    features: str | Sequence[str],
    weight: str | None = None,
    offset: str | None = None,
    group_by: tuple[()] = (),
    into: None = None,
    executor: str | None = None,
    placement: str | None = None,
    finished: FilePath | None = None,
    worker_timeout: float | None = None,
    **options: Any,
) -> Model: ...
@overload
def train(
    connection: object,
    task: str,
    *,
    source: Rows,
    label: str | None = None,
    features: str | Sequence[str],
    weight: str | None = None,
    offset: str | None = None,
    group_by: str | Sequence[str],
    into: None = None,
    executor: str | None = None,
    placement: str | None = None,
    finished: FilePath | None = None,
    worker_timeout: float | None = None,
    **options: Any,
) -> Models: ...
@overload
def train(
    connection: object,
    task: str,
    *,
    source: Rows,
    label: str | None = None,
    features: str | Sequence[str],
    weight: str | None = None,
    offset: str | None = None,
    group_by: str | Sequence[str] = (),
    into: Into,
    replace: bool = False,
    executor: str | None = None,
    placement: str | None = None,
    finished: FilePath | None = None,
    worker_timeout: float | None = None,
    **options: Any,
) -> int: ...
@with_clear_errors
def train(
    connection: object,
    task: str,
    *,
    source: Rows,
    label: str | None = None,
    features: str | Sequence[str],
    weight: str | None = None,
    offset: str | None = None,
    group_by: str | Sequence[str] = (),
    into: Into | None = None,
    replace: bool = False,
    executor: str | None = None,
    placement: str | None = None,
    finished: FilePath | None = None,
    worker_timeout: float | None = None,
    **options: Any,
) -> Model | Models | int:
    """Trains on the rows of a source: one model, or with group_by one per group.

    connection: a DuckDB connection, the path of a DuckDB file or ":memory:", a psycopg
    connection, a `postgresql://` or `duckdb:///file` URL, or an SQLAlchemy engine over psycopg or
    DuckDB. source: a table ("flights", "schema.flights"), a query ("SELECT ..."), or in DuckDB
    Parquet files (a path, a glob, a list of them) or a pandas, Polars or Arrow frame. label,
    features, group_by: columns, or SQL expressions over the source's columns; features is a list
    of numbers, or one expression that is an array or `sparse(indices, values)`; tasks `lda` and
    `kmeans` have no label, and features of `lda` are a list of words;
    `month(date) AS month` names a key. weight, offset: the row's weight, and for counts what is
    added to its margin, such as "ln(exposure)"; columns or expressions. into: keep the models in
    a new table of this name, or in DuckDB in a Parquet file, "models.parquet". replace: whether
    into may replace an existing one. executor: where models are trained: "ray", the address of
    a Ray cluster, or "threads" of this process, or so by `cluster`; by default in the database,
    groups of Parquet files as `tuskml.connect(executor=...)` says. placement: "gtp" trains each
    group on one worker, "gap" large groups in parts on several, "auto" as is estimated to take
    least; by default "gtp" with group_by, and for one model "gap" if parts add sums.
    finished: a folder that keeps the groups it has trained: the same call again
    trains the others. worker_timeout: seconds after which a task of a worker is given to another
    one. options: as for `train_model`.

    Returns a Model; with group_by `Models`, a dict by key (or by a tuple of keys if there are
    several), with None for a group without a usable row; with into, the number of models. Raises
    OptionError for a wrong task or option, DataError for a wrong source, column or rows, and
    ClusterError for a cluster that cannot be used, or groups that it could not train.

    Source: Kaoudi et al., A Cost-based Optimizer for Gradient Descent Optimization, SIGMOD 2017.

    >>> import tuskml
    >>> con = tuskml.connect()
    >>> _ = con.execute("CREATE TABLE t AS SELECT x, 2 * x + 1 AS y FROM range(9) r(x)")
    >>> model = train(con, "linear", source="t", label="y", features=["x"])
    >>> round(model.coef[0], 6), round(model.intercept, 6), model.status
    (2.0, 1.0, 'ok')
    """
    pooled, executor = pop_pooled_and_place(options, executor)
    refuse_unknown(options)
    explain = executor is not None and pop_explain(task, options)
    call = parse_task(task, options_text(options))
    refuse_replace(replace, into)
    with (
        open_database(connection, into is not None) as database,
        rows_of(database, source) as rows,
    ):
        training = resolve(database, call, rows, label, features, group_by, (weight, offset))
        if pooled:
            return run_pooled(database, training, into, replace)
        executor = executor or usual_executor(database, training)
        if into is None and executor is None:
            model = train_streamed(database, training)
            if isinstance(model, Model):
                return training.texts.name_columns(model)
            training = model or training
        if into is not None:
            training = to_be_kept(database, training, into)
        where = ExecutorChoice(executor, placement, finished, worker_timeout, explain)
        return run_training(database, training, where, into, replace)


def run_training(
    database: Database, training: Training, where: ExecutorChoice, into: Into | None, replace: bool
) -> Model | Models | int:
    """Trains, and returns the result of `train`."""
    if where != ExecutorChoice():
        found: Model | Models | int = lazy_function("train_clustered")(
            database, training, where, into, replace
        )
        return found
    if into is not None:
        return keep(database, into, training.query(database), replace)
    return collect_models(database.models(training.query(database)), training)


def run_pooled(
    database: Database, training: Training, into: Into | None, replace: bool
) -> Model | Models | int:
    """Trains groups that learn from each other, and returns the result of `train`."""
    if into is None:
        return collect_models(database.models(pooled_query(training, database)), training)
    query = pooled_query(to_be_kept(database, training, into), database)
    return keep(database, into, query, replace)


def usual_executor(database: Database, training: Training) -> str | None:
    """The connection's executor, for trainings that workers support: groups of files, not in a
    store.
    """
    stored = any(request.options.store is not None for request in training.call.requests)
    if not isinstance(database, DuckDB) or not training.keys or stored:
        return None
    return database.usual_executor() if training.source.files else None


def to_be_kept(database: Database, training: Training, into: Into) -> Training:
    """Adapts a training to models in a table or a file. Raises OptionError if they cannot be
    stored there.
    """
    training = with_names(training)
    refuse_same_names(database, [name for name, _ in training.keys])
    check_into(into)
    return training


def with_names(training: Training) -> Training:
    """Adds the names of features to the models, if there is one for each."""
    given = json.loads(training.options)
    names = list(training.texts.features)
    if len(names) != training.n_features:
        return training
    text = json.dumps({"feature_names": names} | given, ensure_ascii=False)
    return replace(training, options=text) if len(text) <= MAX_TEXT else training


def train_streamed(database: Database, training: Training) -> Model | Training | None:
    """A model of stochastic gradient descent that reads only some of the rows' blocks.

    None if the source has no blocks, or the training must see all rows; the training itself if it
    is to explain the comparison.
    """
    source, request = training.source, training.call.requests[0]
    if (
        training.keys
        or training.call.searches
        or training.extras
        or training.n_features == 0
        or training.text_label
        or not (source.files or source.table)
        or not (learner_of(request.task).streamed.is_wanted(request) or request.options.explain)
    ):
        return None
    label, features = training.label, training.features
    if isinstance(database, DuckDB):
        n = training.n_features or width(database, source.sql, features)
        groups = row_groups_of(database, source.sql, source.files, label, features)
        return None if groups is None or n is None else by_row_group(groups, training, n)
    return train_sampled(database, training) if isinstance(database, Postgres) else None


def train_sampled(database: Postgres, training: Training) -> Model | Training | None:
    """A model of some of a table's blocks, which the server reads and trains on.

    None, or the training on all rows, as `train_streamed` has it.
    """
    given = (training.call.task, training.label, training.features, training.options)
    source = f"{database.text(training.source.sql)}::pg_catalog.regclass"
    handle, is_trained = database.fetch(
        f"SELECT handle, trained FROM {database.function('_tuskml_sampled')}({source}, "
        f"{', '.join(map(database.text, given))}, pg_catalog.current_setting('search_path'))"
    )[0]
    if handle is None:
        return None
    if not is_trained:
        return training.after(handle)
    query = (
        f"SELECT {database.function('_tusk_take_model')}({database.text(handle)}, 0.0::float8, "
        "ARRAY[0.0::float8], '') AS model"
    )
    ((_, value),) = database.models(query)
    return None if value is None else Model.of(value)


def by_row_group(
    groups: RowGroups, training: Training, n_features: int
) -> Model | Training | None:
    """A model of row groups, if they are enough; else as `train_streamed` has it."""
    request = training.call.requests[0]
    learner, models, names = learner_of(request.task), None, request.options.feature_names
    if names is not None and len(names) != n_features:
        return None  # the training on all rows says so
    if learner.streamed.is_wanted(request):
        models = learner.streamed.train(groups, request, n_features)
    if models is None:
        plans = None
        if request.options.explain:
            plans = learner.streamed.plans(groups.storage, request, n_features)
        task = training.call.task
        return None if plans is None else training.after(handle_of(task, plans))
    records.note(models, None)
    if names is not None:
        models = replace(models, features=Names.same(names, len(models.group)))
    return Model.of_batch(training.classes_named(models), 0)


def options_text(options: Mapping[str, Any]) -> str:
    """Options as the JSON text that SQL takes; models and NumPy's numbers are fine."""

    def plain(value: Any) -> Any:
        if isinstance(value, Model):
            return as_start(value)
        if hasattr(value, "tolist"):
            return value.tolist()
        raise OptionError(
            f"an option is of type {type(value).__qualname__}, expected JSON's types"
        )

    return json.dumps(
        {
            name: {k.item() if hasattr(k, "item") else k: item for k, item in value.items()}
            if isinstance(value, Mapping)
            else value
            for name, value in options.items()
        },
        default=plain,
    )


def as_start(model: Model) -> dict[str, Any]:
    """The parts of a model that a training continues from, by their SQL names."""
    kept = {name: getattr(model, name) for name in ("task", "coef", "classes", "store")}
    kept |= {"intercept": model.intercept, "options": model.options_text}
    if model.preparation is not None:
        kept |= {"features": model.features, "preparation": model.preparation}
    return {name: item for name, item in kept.items() if item is not None}


def resolve(
    database: Database,
    call: TaskCall,
    source: Source | FilePath | Sequence[FilePath],
    label: str | None,
    features: str | Sequence[str],
    group_by: str | Sequence[str],
    extras: tuple[str | None, str | None] = (None, None),
) -> Training:
    """Checks the caller's arguments against the source's columns; extras: weight and offset."""
    rows = source if isinstance(source, Source) else find_source(database, source)
    scope = scope_of(database, rows)
    texts = split_expressions(features, "features", scope.columns)
    refuse_repeated(texts)
    keys = split_expressions(group_by, "group_by", scope.columns)
    refuse_repeated(keys, "group_by")
    label = label_given(call.task, call.labels, label, scope)
    if label is not None and of_classes(call.task, call.options, True) != call.options:
        kind = scope.kind(label, "label")
        if kind in ("boolean", "category"):
            call = parse_task(call.task, of_classes(call.task, call.options, kind == "boolean"))
    sql, n_features = scope.features(texts, by_name(call.options))
    label_sql = "NULL" if label is None else scope.label(label, call.classifies, call.remedy)
    refuse_leaks(label, texts, scope)
    refuse_leaks(label, keys, scope, "group_by")
    return Training(
        call,
        rows,
        label_sql,
        sql,
        tuple(map(scope.key, keys)),
        call.options,
        n_features,
        ColumnTexts(tuple(texts), label, tuple(keys)),
        "number" if label is None else kind_of(scope.types([label_sql], "label")[0]),
        extras=scope.extras(*extras),
    )
