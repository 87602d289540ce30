"""Writes the models that every later version has to read, with what they predict.

    python scripts/build/kept.py tests/sql/kept

It makes a folder that is called by the version and has

    models.duckdb   models of every task, a registry and rows, in the format of DuckDB 1.0
    models.parquet  the same models in a table
    models.json     the same as Model.to_json writes them, by name
    stores          the files of those with the option store
    models.sql      what pg_dump writes of a database with models of every task and a registry
    tuskml*.sql.gz  the scripts that created the extensions of that database
    expected.json   a query of each model in each database, and its answers

It needs PostgreSQL's server, as the tests do. A folder of a released version is never made anew.
"""

import gzip
import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tuskml
from tuskml import registry
from tuskml.databases.extension import pgxs
from tuskml.model.model import Model
from tuskml.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
ROWS = """
CREATE TABLE kept_rows AS
SELECT i, CAST(i % 7 + (i * 5) % 3 / 4.0 AS DOUBLE PRECISION) AS a,
       CASE WHEN i % 11 = 3 THEN NULL ELSE CAST((i * 37) % 23 / 3.0 AS DOUBLE PRECISION) END AS b,
       i % 5 AS n, CASE WHEN i % 13 = 4 THEN NULL ELSE 'k' || (i % 3) END AS k,
       DATE '2024-01-01' + 17 * i AS d, 'red ' || (i % 4) || ' blue' AS words,
       CAST(1 + i % 7 + (i * 37) % 23 / 3.0 + i % 3 AS DOUBLE PRECISION) AS y,
       (i * 7919) % 101 % 7 % 2 = 1 AS two, i % 7 + i * 31 % 4 AS whole,
       CASE i * 7 % 5 % 3 WHEN 0 THEN 'red' WHEN 1 THEN 'blue' ELSE 'teal' END AS kind
FROM {series} ORDER BY i
"""
SERIES = {
    "duckdb": "(SELECT CAST(r AS INTEGER) FROM range(1, 81) AS g(r)) AS t(i)",
    "postgres": "generate_series(1, 80) AS t(i)",
}
SHOWN = 12
"""The first rows, which models predict."""
LIST = "ARRAY[s.a, CAST(s.n AS DOUBLE PRECISION), CAST(s.i % 4 AS DOUBLE PRECISION)]"
NAMED, DERIVED = "abk", "abnkdw"
"""Letters of the columns of a row with names."""
COLUMNS = {"w": "words"}
SPARSE = "sparse(ARRAY[0, 2 + s.i % 3], ARRAY[s.a, 1.5])"
PAIRS = "ARRAY[s.i % 6, s.i * 5 % 11]"
WORDS = "ARRAY['w' || (s.i % 6), 'v' || (s.i % 4)]"


@dataclass(frozen=True)
class Kept:
    """A training; features are an expression of a row `s`, or the letters of its columns."""

    task: str
    label: str
    features: str
    options: str = "{}"

    @property
    def by_name(self) -> bool:
        """Returns whether it reads rows with names."""
        return self.features in (NAMED, DERIVED)

    @property
    def source(self) -> str:
        """The rows, also as `r`, which has the columns by name."""
        columns = ", ".join(f"s.{COLUMNS.get(one, one)}" for one in self.features)
        named = f", LATERAL (SELECT {columns}) AS r" if self.by_name else ""
        return f"(SELECT * FROM kept_rows ORDER BY i) AS s{named}"

    @property
    def training(self) -> str:
        """The query that trains the model."""
        features = "r" if self.by_name else self.features
        label = "NULL" if self.label == "NULL" else f"s.{self.label}"
        return (
            f"train_model('{self.task}', {label}, {features}, '{self.options}') FROM {self.source}"
        )

    @property
    def answering(self) -> str:
        """The query of the rows' answers by a model in kept_models, given its name."""
        features = "r" if self.by_name else self.features
        answer = f"{self.function}(m.model, {features})"
        where = f"m.name = '{{}}' AND s.i <= {SHOWN}"
        return f"SELECT {answer} FROM kept_models AS m, {self.source} WHERE {where} ORDER BY s.i"

    @property
    def function(self) -> str:
        """What tells most of a model."""
        if self.task == "lda":
            return "predict_topics"
        if self.label == "two":
            return "predict_proba" if self.task.endswith("logistic") else "decision"
        return "predict_class" if self.label == "kind" else "predict"


MODELS = {
    "linear": Kept("linear", "y", LIST),
    "linear, by name": Kept("linear", "y", NAMED, '{"missing": "impute"}'),
    "linear, derived": Kept(
        "linear",
        "y",
        DERIVED,
        '{"missing": "level", "dates": "parts", "text": ["words"], "text_bits": 6, "l2": 0.1,'
        ' "categories": ["n"], "interactions": [["a", "k"]], "unseen": "error"}',
    ),
    "linear, sparse": Kept("linear", "y", SPARSE),
    "logistic": Kept("logistic", "two", LIST),
    "logistic, of texts": Kept("logistic", "kind", NAMED, '{"l2": 0.01}'),
    "svm": Kept("svm", "two", LIST),
    "squared_hinge": Kept("squared_hinge", "two", LIST),
    "poisson": Kept("poisson", "whole", LIST),
    "negative_binomial": Kept("negative_binomial", "whole", LIST),
    "gamma": Kept("gamma", "y", NAMED),
    "tweedie": Kept("tweedie", "y", LIST),
    "inverse_gaussian": Kept("inverse_gaussian", "y", LIST),
    "huber": Kept("huber", "y", LIST),
    "ordinal": Kept("ordinal", "whole", LIST),
    "quantile": Kept("quantile", "y", LIST, '{"quantile": 0.7}'),
    "matrix_factorization": Kept("matrix_factorization", "y", PAIRS, '{"rank": 2, "max_iter": 3}'),
    "gbdt": Kept("gbdt", "y", LIST, '{"trees": 3, "min_child_rows": 5}'),
    "gbdt, by name": Kept("gbdt", "y", DERIVED, '{"trees": 3, "min_child_rows": 5}'),
    "gbdt, of texts": Kept("gbdt", "kind", NAMED, '{"trees": 3, "min_child_rows": 5}'),
    "random_forest": Kept("random_forest", "y", NAMED, '{"trees": 3}'),
    "random_forest, of texts": Kept("random_forest", "kind", LIST, '{"trees": 3}'),
    "mlp": Kept("mlp", "y", LIST, '{"layers": [4], "activation": "tanh", "max_iter": 30}'),
    "lasso": Kept("lasso", "y", LIST, '{"path": {"length": 5}}'),
    "elastic_net": Kept("elastic_net", "y", LIST, '{"path": {"length": 5}}'),
    "sparse_logistic": Kept("sparse_logistic", "two", LIST, '{"path": {"length": 5}}'),
    "lda": Kept("lda", "NULL", WORDS, '{"topics": 2, "max_iter": 3}'),
    "kmeans": Kept("kmeans", "NULL", LIST, '{"clusters": 3}'),
    "fm": Kept("fm", "y", LIST, '{"rank": 2, "max_iter": 3}'),
}
"""By name, which begins with the task."""
STORED = {"linear, stored": Kept("linear", "y", SPARSE, '{"store": "kept", "max_iter": 5}')}
REGISTERED = "linear, by name"
ANSWER_OF_REGISTRY = (
    f"SELECT predict('kept', r) FROM {MODELS[REGISTERED].source} WHERE s.i <= {SHOWN} ORDER BY s.i"
)
NEW_COMMANDS = ("\\restrict", "\\unrestrict")
"""Lines of pg_dump that an earlier psql does not know."""
Run = Callable[[str], list[Any]]
"""The first column of what a statement answers."""


def fill(run: Run, database: str, models: dict[str, Kept]) -> None:
    """Creates the rows and their models."""
    run(ROWS.format(series=SERIES[database]))
    trainings = [f"SELECT '{name}' AS name, {one.training}" for name, one in models.items()]
    first, *others = trainings
    run(f"CREATE TABLE kept_models AS {first.replace(' FROM ', ' AS model FROM ', 1)}")
    for training in others:
        run(f"INSERT INTO kept_models {training}")


def answers(run: Run, models: dict[str, Kept]) -> dict[str, Any]:
    """The query of what each model predicts, and of what is deployed, and its answers."""
    queries = {name: one.answering.format(name) for name, one in models.items()}
    queries |= {"the registry": ANSWER_OF_REGISTRY}
    return {name: {"query": query, "answers": run(query)} for name, query in queries.items()}


def write_duckdb(folder: Path) -> dict[str, Any]:
    """Writes DuckDB's files, and returns the answers."""
    with tuskml.connect(store_root=folder / "stores", threads=1) as con:
        how = "STORAGE_VERSION 'v1.0.0', BLOCK_SIZE 16384"
        con.execute(f"ATTACH '{folder / 'models.duckdb'}' AS kept ({how})")
        con.execute("USE kept")

        def run(statement: str) -> list[Any]:
            return [row[0] for row in con.execute(statement).fetchall()]

        fill(run, "duckdb", MODELS | STORED)
        registry.create(con)
        ((value,),) = con.execute(
            f"SELECT model FROM kept_models WHERE name = '{REGISTERED}'"
        ).fetchall()
        registry.register(con, "kept", Model.of(value))
        registry.deploy(con, "kept")
        con.execute(f"COPY kept_models TO '{folder / 'models.parquet'}' (FORMAT parquet)")
        values = con.execute("SELECT name, model FROM kept_models").fetchall()
        texts = {name: json.loads(Model.of(value).to_json()) for name, value in values}
        (folder / "models.json").write_text(json.dumps(texts) + "\n")
        found = answers(run, MODELS | STORED)
        con.execute("USE memory")
        con.execute("DETACH kept")
        return found


def write_postgres(folder: Path) -> dict[str, Any]:
    """Writes PostgreSQL's files, and returns the answers."""
    sys.path.append(str(ROOT / "tests" / "postgres"))
    private_cluster = importlib.import_module("cluster").private_cluster

    with private_cluster(ROOT / "build" / "postgres") as cluster:
        cluster.create_database("kept")
        with cluster.connect("kept") as session:

            def run(statement: str) -> list[Any]:
                done = session.execute(statement)
                return [row[0] for row in done.fetchall()] if done.description else []

            fill(run, "postgres", MODELS)
            run("SELECT create_registry()")
            one = f"kept_models WHERE name = '{REGISTERED}'"
            run(f"SELECT register_model('kept', model) FROM {one}")
            run("SELECT deploy('kept')")
            found = answers(run, MODELS)
        program = pgxs.find().folder("BINDIR") / "pg_dump"
        plain = ["--no-owner", "--no-privileges", "--no-comments", "-d", cluster.conninfo("kept")]
        dump = subprocess.run([program, *plain], capture_output=True, text=True, check=True).stdout
        lines = [line for line in dump.splitlines() if not line.startswith(NEW_COMMANDS)]
        (folder / "models.sql").write_text("\n".join(lines) + "\n")
        for script in sorted(cluster.server.scripts.glob(f"tuskml*--{VERSION}.sql")):
            packed = gzip.compress(script.read_bytes(), mtime=0)
            (folder / f"{script.name}.gz").write_bytes(packed)
    return found


def write(parent: Path) -> Path:
    """Writes the folder of this version below `parent`, and returns it."""
    with TemporaryDirectory(dir=parent) as name:
        made = Path(name, "made")
        made.mkdir()
        found = {"duckdb": write_duckdb(made), "postgres": write_postgres(made)}
        (made / "expected.json").write_text(json.dumps(found) + "\n")
        folder = parent / VERSION
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)
    return folder


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("kept.py: expected the folder that the version's folder shall lie in")
    sys.stdout.write(f"{write(Path(sys.argv[1]))}\n")
