"""The fields of a model value; `scripts/build/model_fields.py` writes this from the schema."""

from typing import NamedTuple


class ModelField(NamedTuple):
    """A field: its name, its kind as the schema calls it, and its types in SQL."""

    name: str
    kind: str
    duckdb: str
    postgres: str


MODEL_FIELDS = (
    ModelField("task", "TEXT", "VARCHAR", "text"),
    ModelField("features", "TEXTS", "VARCHAR[]", "text[]"),
    ModelField("preparation", "TEXT", "VARCHAR", "text"),
    ModelField("coef", "NUMBERS", "DOUBLE[]", "float8[]"),
    ModelField("intercept", "NUMBER", "DOUBLE", "float8"),
    ModelField("std_err", "NUMBERS", "DOUBLE[]", "float8[]"),
    ModelField("classes", "NUMBERS", "DOUBLE[]", "float8[]"),
    ModelField("class_names", "TEXTS", "VARCHAR[]", "text[]"),
    ModelField("n_rows", "COUNT", "BIGINT", "bigint"),
    ModelField("n_skipped", "COUNT", "BIGINT", "bigint"),
    ModelField("note", "TEXT", "VARCHAR", "text"),
    ModelField("n_features", "COUNT", "BIGINT", "bigint"),
    ModelField("loss", "NUMBER", "DOUBLE", "float8"),
    ModelField("history", "NUMBERS", "DOUBLE[]", "float8[]"),
    ModelField("iterations", "COUNT", "BIGINT", "bigint"),
    ModelField("converged", "TRUTH", "BOOLEAN", "boolean"),
    ModelField("status", "TEXT", "VARCHAR", "text"),
    ModelField("plan", "TEXT", "VARCHAR", "text"),
    ModelField("seconds", "NUMBER", "DOUBLE", "float8"),
    ModelField("options", "TEXT", "VARCHAR", "text"),
    ModelField("store", "TEXT", "VARCHAR", "text"),
    ModelField("trials", "TEXT", "VARCHAR", "text"),
    ModelField("spread", "NUMBERS", "DOUBLE[]", "float8[]"),
    ModelField("histogram", "TEXT", "VARCHAR", "text"),
    ModelField("payload", "PAYLOAD", "BLOB", "bytea"),
)
"""In the order of both databases' types (`udas/rowblock/model_fields.h`)."""
