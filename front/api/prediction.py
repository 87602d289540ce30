"""`tuskml.predict` and `tuskml.evaluate`: models applied to the sources that `train` reads.

They write the query of SQL's `predict` and of its metrics, and run it in the database: only the
results leave it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tuskml.api.argument_checks import refuse_replace
from tuskml.api.curves import curve_names, fetch_curve, fetch_deciles
from tuskml.api.joining import JoinableModels, ModelLike, join_models
from tuskml.databases.database import Database, Row, kind_of
from tuskml.databases.frames import Form, check_form, fetch_frame
from tuskml.databases.opening import open_database
from tuskml.databases.postgres import Postgres
from tuskml.databases.results import Into, keep
from tuskml.databases.sources import Rows, Scope, rows_of, scope_of, split_expressions
from tuskml.errors import DataError, nearest, one_of
from tuskml.learners.options.by_name import ByName
from tuskml.learners.tasks import is_labelled, takes_offsets
from tuskml.model.answers import Answers, Kind
from tuskml.model.group_models import Models, by_own_key
from tuskml.text.calls import with_clear_errors
from tuskml.text.expressions import column_named, one, quote_name
from tuskml.udas.tasks import TASK_TABLE

NAMES = {
    "predict": "prediction",
    "predict_proba": "probability",
    "predict_probas": "probabilities",
    "predict_class": "class",
    "decision": "decision",
    "predict_topics": "topics",
    "predict_interval": "interval",
}
WITH_OFFSET = ("predict", "predict_proba", "predict_class", "decision")
Metrics = dict[str, Any]
REGRESSION = ("rmse", "mae", "r2")
SEVERAL = ("log_loss", "accuracy", "f1_macro")
FUNCTIONS = {"f1_macro": "f1_score"}
CURVE_ARGUMENTS = {"calibration": "tusk_high, tusk_p, 10", "confusion": "tusk_y, tusk_c"}


@with_clear_errors
def predict(
    connection: object,
    model: ModelLike,
    *,
    source: Rows,
    features: str | Sequence[str] | None = None,
    group_by: str | Sequence[str] = (),
    kind: Kind | Literal["predict_probas", "predict_topics", "predict_interval"] = "predict",
    level: float | None = None,
    columns: str | Sequence[str] | None = None,
    name: str | None = None,
    offset: str | None = None,
    into: Into | None = None,
    replace: bool = False,
    returns: Form | None = None,
) -> Any:
    """Predicts each row of a source, in the database.

    connection, source: as for `tuskml.train`. model: a Model, the Models that `train` returned
    with group_by, or a table (or query) of models that `into` made, with a column `model` next to
    its keys. features: columns or SQL expressions, by default those that the model was trained on.
    group_by: the keys of models by group, by default those that they were trained with; a row
    whose group has no model gets NULL. kind: `predict`, the number or the class, as a number where
    the names of all classes are numbers or booleans, and otherwise by its name; `predict_proba`,
    the probability of the higher of two classes; `predict_probas`, those of all classes, a dict by
    class name; `predict_class`, the class by its name; `decision`, the margin; `predict_topics`,
    the proportions of topics of `lda`; or `predict_interval`, a dict with the number, its standard
    error, and intervals of the level, 0.95 by default. columns: the source's columns to return
    with the prediction; all by default. name: the column of predictions, by default prediction,
    probability, probabilities, class, decision, topics or interval. offset: a column or SQL
    expression that is added to the margin, as in the model's training, such as "ln(exposure)".

    Returns the rows as a pandas frame; for a Polars or Arrow source, as such a frame. returns:
    'pandas', 'polars', 'arrow' or 'numpy' (a dict of arrays). With into, writes the rows to a new
    table, or to a file if it is a name such as "scored.parquet" or "scored.csv", and returns their
    number. replace: whether an existing table or file may be replaced. The rows of one model are
    in the source's order. Raises DataError for a wrong source, column, model or rows.

    >>> import tuskml
    >>> con = tuskml.connect()
    >>> _ = con.execute("CREATE TABLE t AS SELECT x, 2 * x + 1 AS y FROM range(9) r(x)")
    >>> model = tuskml.train(con, "linear", source="t", label="y", features=["x"])
    >>> rows = predict(con, model, source="SELECT 100 AS x", returns="numpy")
    >>> rows["prediction"].round(6).tolist()
    [201.0]
    """
    if kind not in NAMES:
        raise DataError(f"kind is {kind!r}, expected {one_of(NAMES)}{nearest(str(kind), NAMES)}")
    form: Form = "numpy" if into is not None else check_form(returns, source)
    refuse_replace(replace, into)
    with (
        open_database(connection, into is not None) as database,
        rows_of(database, source) as rows,
    ):
        scoring = resolve(database, model, scope_of(database, rows), features, group_by)
        shown = choose_columns(scoring.scope, columns)
        added = scoring.offset(offset, kind)
        query = scoring.rows(kind, name or NAMES[kind], shown, added, level)
        if into is not None:
            return keep(database, into, query, replace)
        return fetch_frame(database, query, form)


@with_clear_errors
def evaluate(
    connection: object,
    model: ModelLike,
    *,
    source: Rows,
    label: str | None = None,
    features: str | Sequence[str] | None = None,
    weight: str | None = None,
    offset: str | None = None,
    group_by: str | Sequence[str] = (),
    curves: bool = False,
) -> Any:
    """Scores a model's predictions for the rows of a source, computed in the database.

    connection, model, source, features: as for `predict`. label: a column or SQL expression, by
    default the one that the model was trained on. weight: the row's weight, a number of at least
    0; a row of weight 0 or NULL does not count. offset: a term added to the margin, such as
    "ln(exposure)", so that counts of such an exposure are compared. Both are columns or SQL
    expressions. group_by: metrics per group, also for one model. curves: adds the rows of
    `roc_curve`, `precision_recall_curve` and `lift`, and with probabilities of `calibration`, of
    more than two classes those of `confusion`, as lists of dicts; `tuskml.plots` draws them. They
    are empty where the rows do not determine them. Of numbers it adds `deciles`: the mean label
    and the mean prediction of each tenth of the rows, in the order of the predictions.

    Returns a dict: `n_rows`, the rows that have a label and a prediction, and `n_not_scored`, the
    others, such as those with a NULL among the features, which no metric counts; `rmse`, `mae` and
    `r2` for numbers; `auc`, `log_loss` and `accuracy` for `logistic`; `auc` and `accuracy` for
    `svm`; with more than two classes `log_loss`, `accuracy` and `f1_macro`, the mean of `f1_score`
    over classes; for your own task those of numbers or of classes, with `log_loss` if it has
    probabilities. A label may be text where the model's classes have names. A metric without a
    value, such as the `auc` of one class, is None. With group_by it is a dict of such dicts by
    key, or by a tuple of keys if there are several. With more than two classes, a label that is
    none of them is a wrong prediction, whose class has the probability 0. Raises DataError as
    `predict` does, and for labels that are none of a model's classes.

    >>> import tuskml
    >>> con = tuskml.connect()
    >>> _ = con.execute("CREATE TABLE t AS SELECT x, x > 4 AS high FROM range(9) r(x)")
    >>> model = tuskml.train(con, "logistic", source="t", label="high", features=["x"], l2=0.1)
    >>> found = evaluate(con, model, source="t")
    >>> found["n_rows"], found["auc"], found["accuracy"]
    (9, 1.0, 1.0)
    """
    with open_database(connection) as database, rows_of(database, source) as rows:
        scoring = resolve(database, model, scope_of(database, rows), features, group_by)
        if not is_labelled(scoring.models.task):
            raise DataError(
                f"task '{scoring.models.task}' has no labels with which predictions could be "
                "compared: expected a model of another task"
            )
        text = scoring.models.label if label is None else label
        if text is None:
            raise DataError("label is not given, and the model does not know its own: give label")
        extras = scoring.extras(weight, offset)
        return scoring.metrics(one(text, "label", scoring.scope.columns), curves, extras)


@dataclass(frozen=True)
class Scoring:
    """Rows and models that belong together; keys are names and SQL over the source's columns."""

    database: Database
    scope: Scope
    models: JoinableModels
    features: str
    keys: tuple[tuple[str, str], ...]

    def function(self, name: str, offset: str | None = None) -> str:
        """A prediction, in the scope of `join_query`; offset: SQL of what is added to margins."""
        return self.call(name, "models.tusk_model, rows.tusk_x", offset)

    def call(self, name: str, arguments: str, offset: str | None) -> str:
        """A function's answer as clients read it, all SQL: of intervals an object."""
        if offset is None or name == "decision":
            call = f"{self.database.function(name)}({arguments})"
            if offset is not None:
                return f"({call} + {offset})"
            composite = name == "predict_interval" and isinstance(self.database, Postgres)
            return f"to_jsonb({call})" if composite else call
        return f"{self.database.function(f'{name}_with_offset')}({arguments}, {offset})"

    def offset(self, text: str | None, kind: str) -> str | None:
        """SQL of the rows' offsets, None without any. Raises DataError where a model or a kind of
        prediction has none.
        """
        if text is None:
            return None
        if kind not in WITH_OFFSET:
            raise DataError(f"offset is given with kind {kind!r}, expected {one_of(WITH_OFFSET)}")
        self.refuse_offset()
        return self.scope.number(one(text, "offset", self.scope.columns), "offset")

    def refuse_offset(self) -> None:
        """Raises DataError for models that take no offsets."""
        task = self.models.task
        if self.models.several or not takes_offsets(task):
            able = one_of(name for name in TASK_TABLE if takes_offsets(name))
            which = " with more than two classes" if self.models.several else ""
            raise DataError(
                f"offset is given for a model of task '{task}'{which}, expected a model of {able}"
            )

    def join_query(self, given: Sequence[str]) -> str:
        """The rows joined with their models, for `FROM`; given: columns with their names."""
        keys = [f"{sql} AS tusk_g{k}" for k, (_, sql) in enumerate(self.keys)]
        inner = ", ".join([*given, *keys, f"{self.features} AS tusk_x"])
        rows = f"(SELECT {inner} FROM {self.scope.source.sql}) AS rows"
        by = [f"rows.tusk_g{k}" for k in range(len(self.models.alike))]
        return f"{rows} {self.models.join(self.database, by)}"

    def rows(
        self,
        kind: str,
        name: str,
        columns: Sequence[str],
        offset: str | None = None,
        level: float | None = None,
    ) -> str:
        """The query of the source's columns and the predictions; classes that are texts are
        predicted by their names. offset: SQL of what is added to margins; level: of intervals.
        Raises DataError for a level of other predictions.
        """
        if level is not None and kind != "predict_interval":
            raise DataError(f"level is given for {kind}, expected it for predict_interval alone")
        more = "" if level is None else f", {float(level)!r}"
        if kind == "predict" and self.models.text_classes:
            kind = "predict_class"
        if column_named(name, columns) is not None:
            raise DataError(
                f"the source has a column {name!r}, as the predictions would be called: give "
                "name, or columns without it"
            )
        if self.models.constant is not None:  # without a join rows stay in their order
            arguments = f"{self.models.constant}, {self.features}{more}"
            predicted = self.call(kind, arguments, offset)
            shown = [*map(quote_name, columns), f"{predicted} AS {quote_name(name)}"]
            return f"SELECT {', '.join(shown)} FROM {self.scope.source.sql}"
        given = [f"{quote_name(column)} AS tusk_c{k}" for k, column in enumerate(columns)]
        shown = [f"rows.tusk_c{k} AS {quote_name(column)}" for k, column in enumerate(columns)]
        if offset is not None:
            given.append(f"{offset} AS tusk_o")
            offset = "rows.tusk_o"
        predicted = self.call(kind, f"models.tusk_model, rows.tusk_x{more}", offset)
        shown.append(f"{predicted} AS {quote_name(name)}")
        return f"SELECT {', '.join(shown)} FROM {self.join_query(given)}"

    def extras(self, weight: str | None, offset: str | None) -> tuple[str, ...]:
        """SQL of the rows' weights, or of weights and offsets. Raises DataError for an offset
        of models that take none.
        """
        if offset is not None:
            self.refuse_offset()
        return self.scope.extras(weight, offset)

    def metrics(self, label: str, curves: bool = False, extras: Sequence[str] = ()) -> Any:
        """The metrics of each group of keys; label: a column or SQL; extras: as of `extras`."""
        answers = self.models.answers()
        several = self.models.several
        names = SEVERAL if several else metrics_of(answers)
        label = self.scope.label(label, may_be_text=answers.classifies)
        scored = self.score_query(answers, label, extras)
        weighed, counts = (", tusk_w", " AND tusk_w > 0") if extras else ("", "")
        keys = [f"tusk_g{k}" for k in range(len(self.keys))]
        function = self.database.function
        arguments = {
            "auc": "tusk_high, tusk_m",
            "log_loss": "tusk_y, tusk_s" if several else "tusk_high, tusk_p",
            "f1_macro": "tusk_y, tusk_c, 'macro'",
        }
        shown = [
            *keys,
            f"count(*) FILTER (WHERE tusk_y IS NOT NULL AND tusk_c IS NOT NULL{counts})",
            f"count(*) FILTER (WHERE (tusk_y IS NULL OR tusk_c IS NULL){counts})",
            f"count(*) FILTER (WHERE tusk_third{counts})",
            *(
                f"{function(FUNCTIONS.get(name, name))}"
                f"({arguments.get(name, 'tusk_y, tusk_c')}{weighed})"
                for name in names
            ),
        ]
        query = f"SELECT {', '.join(shown)} FROM ({scored}) AS scored"
        if keys:
            query += f" GROUP BY {', '.join(keys)} ORDER BY {', '.join(keys)}"
        found = self.database.fetch(query)
        if several:
            refuse_unknown(
                [(n_rows, n) for n_rows, _, n, *_ in (row[len(keys) :] for row in found)]
            )
        by_key = by_own_key(
            (row[: len(keys)], metrics_in(row[len(keys) :], names, several)) for row in found
        )
        for name in curve_names(answers, several) if curves else ():
            given = CURVE_ARGUMENTS.get(name, "tusk_high, tusk_m") + weighed
            points = fetch_curve(self.database, name, given, scored, keys)
            for key, metrics in by_key.items():
                metrics[name] = points.get(key, [])
        if curves and not answers.classifies:
            points = fetch_deciles(self.database, scored, keys, bool(extras))
            for key, metrics in by_key.items():
                metrics["deciles"] = points.get(key, [])
        if not keys:
            return by_key[()]
        return {key[0]: m for key, m in by_key.items()} if len(keys) == 1 else by_key

    def score_query(self, answers: Answers, label: str, extras: Sequence[str] = ()) -> str:
        """The query of labels, classes, margins, probabilities and, of extras, weights.

        tusk_high: whether a label is the higher class; with a model that has seen one class, that
        class is high if it is above 0. tusk_third: whether it is none of the model's classes.
        tusk_s: the probabilities of more than two classes.
        """
        third, high, (kind,) = "false", "NULL", self.scope.types([label], "label")
        named, several = kind_of(kind) == "category", self.models.several
        y = "CAST(rows.tusk_label AS text)"
        if not named:
            y = self.database.as_double("rows.tusk_label", kind)
        if several:
            third = f"NOT {y} = ANY ((models.tusk_model).{'class_names' if named else 'classes'})"
        elif answers.classifies:
            third, high = sides(y, named)
        offset = "rows.tusk_o" if len(extras) > 1 else None
        shown = [
            *(f"rows.tusk_g{k}" for k in range(len(self.keys))),
            f"{y} AS tusk_y",
            f"{self.function('predict_class' if named else 'predict', offset)} AS tusk_c",
            f"{high} AS tusk_high",
            f"{third} AS tusk_third",
            *(["rows.tusk_w"] if extras else []),
        ]
        if several:
            shown.append(f"{self.function('predict_probas')} AS tusk_s")
        elif answers.classifies:
            shown.append(f"{self.function('decision', offset)} AS tusk_m")
        if answers.has_probabilities and not several:
            shown.append(f"{self.function('predict_proba', offset)} AS tusk_p")
        given = zip(extras, ("tusk_w", "tusk_o"), strict=False)
        matched = self.join_query(
            [f"{label} AS tusk_label", *(f"{x} AS {name}" for x, name in given)]
        )
        return f"SELECT {', '.join(shown)} FROM {matched}"


def sides(y: str, named: bool) -> tuple[str, str]:
    """SQL of whether a label is neither of two classes, and of whether it is the higher one.

    named: whether labels are classes by name; of those a lone one is the lower.
    """
    field = "(models.tusk_model)." + ("class_names" if named else "classes")
    low, other = f"{field}[1]", f"{field}[2]"
    alone = f"({low} > 0) = ({y} = {low})"  # another label is a wrong prediction
    if named:
        alone = f"{y} <> {low}"
    high = f"CASE WHEN {other} IS NULL THEN {alone} ELSE {y} = {other} END"
    return f"{y} <> {low} AND {y} <> {other}", high


def metrics_of(answers: Answers) -> tuple[str, ...]:
    """The metrics of models that predict so."""
    if answers.has_probabilities:
        return ("auc", "log_loss", "accuracy")
    return ("auc", "accuracy") if answers.classifies else REGRESSION


def refuse_unknown(counts: Sequence[tuple[int, int]]) -> None:
    """Raises DataError if no label of any group is a class of its model, as with a wrong
    column; some may be wrong predictions. counts: rows with a label, and those of unknown
    classes.
    """
    rows, unknown = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    if rows and unknown >= rows:
        raise DataError(
            f"the label of {unknown:,} rows is none of the model's classes: expected the label "
            "that it was trained on"
        )


def metrics_in(row: Row, names: Sequence[str], several: bool = False) -> Metrics:
    """The metrics of a group by name. Raises DataError if labels are of a third class of two."""
    n_rows, n_not_scored, third, *values = row
    if third and not several:
        raise DataError(
            f"the label of {third:,} rows is neither of the model's two classes: expected the "
            "label that it was trained on"
        )
    counts = {"n_rows": int(n_rows), "n_not_scored": int(n_not_scored)}
    return {**counts, **dict(zip(names, values, strict=True))}


def choose_columns(scope: Scope, columns: str | Sequence[str] | None) -> list[str]:
    """The source's columns that stay. Raises DataError for an unknown name."""
    if columns is None:
        return list(scope.columns)
    names = []
    for text in [columns] if isinstance(columns, str) else columns:
        column = column_named(text, scope.columns)
        if column is None:
            raise DataError(scope.no_column(text, "columns"))
        names.append(column)
    return names


def resolve_features(
    given: str | Sequence[str] | None, models: JoinableModels, what: str
) -> str | Sequence[str]:
    """The features that a caller gave as `what`, or those that the models know."""
    found = models.features if given is None else given
    if found is None:
        raise DataError(f"{what} is not given, and the model does not know its own: give {what}")
    return found


def resolve(
    database: Database,
    model: ModelLike,
    scope: Scope,
    features: str | Sequence[str] | None,
    group_by: str | Sequence[str],
) -> Scoring:
    """Checks models, features and keys against each other."""
    texts = split_expressions(group_by, "group_by", scope.columns)
    if not texts and isinstance(model, Models):
        texts = split_expressions(model.group_by, "group_by", scope.columns)
    keys = tuple(map(scope.key, texts))
    models = join_models(database, model, scope, keys)
    texts = split_expressions(
        resolve_features(features, models, "features"), "features", scope.columns
    )
    sql, _ = scope.features(texts, ByName(models.by_name))
    return Scoring(database, scope, models, sql, keys)
