"""Trainings that read some blocks of a PostgreSQL table, inside the server.

A range of ctid is a TID range scan: the server reads those blocks and no others, and packs their
rows where it reads them. Queries run with the rights of the caller and in its transaction, each as
a cursor, which takes one SELECT and no second statement.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tuskml.errors import TuskError
from tuskml.groups.contract import backend
from tuskml.groups.contract.attachment import one_line, sentence, state
from tuskml.learners.learner import Request
from tuskml.learners.models import Models, Names
from tuskml.learners.receiving import Receiver, handle_of, ready, receiving
from tuskml.learners.registry import learner_of, options_of, task_named
from tuskml.learners.row_groups import Piece, Storage

GROUP_ROWS = 8192
"""About how many rows the blocks of a range have."""
TABLE = """
SELECT pg_relation_size(c.oid) / current_setting('block_size')::bigint AS blocks,
       CASE WHEN c.relpages > 0 AND c.reltuples > 0 THEN c.reltuples / c.relpages END AS density
FROM pg_class AS c JOIN pg_am AS a ON a.oid = c.relam
WHERE c.oid = {}::regclass AND c.relkind = 'r' AND a.amname = 'heap'
"""
IN_BLOCKS = "SELECT count(*)::float8 AS n FROM ONLY {} AS source WHERE ctid < '({},0)'::tid"
KINDS = "SELECT pg_typeof(({}\n))::text AS y, pg_typeof(({}\n))::text AS x FROM {} LIMIT 1"
WIDTH = "SELECT max(cardinality(x)) AS n FROM (SELECT ({}\n) AS x FROM {} LIMIT 100) AS first_rows"
HEIRS = "SELECT count(*) AS n FROM pg_inherits WHERE inhparent = {}::regclass"
NUMBERS = ("smallint", "integer", "bigint", "real", "double precision", "numeric")
LABELS = ("boolean", *NUMBERS)
ARRAYS = tuple(f"{name}[]" for name in NUMBERS)

Ask = Callable[[str], list[dict[str, Any]]]
"""Runs a query and returns its rows."""


@dataclass(frozen=True)
class Asked:
    """The request of a call of `train`: a table, and SQL expressions over its columns."""

    table: str
    task: str
    label: str
    features: str
    options: str


@dataclass(frozen=True)
class Blocks:
    """Ranges of `blocks` blocks of a table; storage: how they lie on the disk."""

    ask: Ask
    schema: str
    asked: Asked
    blocks: int
    storage: Storage

    @property
    def sizes(self) -> Sequence[int]:
        """About how many rows each range has."""
        return self.storage.sizes

    def read(self, pieces: Sequence[Piece], receiver: Receiver) -> None:
        """Packs the rows of the pieces, a part of a range by its share of the blocks."""
        parts = " UNION ALL ".join(map(self.select, pieces))
        with receiving(receiver) as handle:
            self.ask(
                f"SELECT {self.schema}._tusk_send_rows('{handle}', y, x) FROM ({parts}) AS packed"
            )

    def select(self, piece: Piece) -> str:
        """Label and features of the rows in a piece's blocks."""
        size = max(1, self.sizes[piece.row_group])
        first = piece.row_group * self.blocks
        begin = first + self.blocks * piece.first // size
        end = first + -(-self.blocks * (piece.first + piece.n_rows) // size)
        return (
            f"SELECT ({self.asked.label}\n) AS y, ({self.asked.features}\n) AS x "
            f"FROM ONLY {self.asked.table} AS source "
            f"WHERE source.ctid >= '({begin},0)'::tid AND source.ctid < '({end},0)'::tid"
        )


def blocks_of(ask: Ask, schema: str, asked: Asked) -> Blocks | None:
    """The block ranges of an ordinary table; None for a view and the like, and for few rows."""
    name = text(asked.table)
    found = ask(TABLE.format(name))
    if not found or ask(HEIRS.format(name))[0]["n"]:
        return None
    n_blocks, density = int(found[0]["blocks"]), found[0]["density"]
    if density is None and n_blocks:  # never analysed: count its first blocks
        seen = min(64, n_blocks)
        density = ask(IN_BLOCKS.format(asked.table, seen))[0]["n"] / seen
    if not density:
        return None
    blocks = max(1, round(GROUP_ROWS / float(density)))
    sizes = [
        round(min(blocks, n_blocks - first) * float(density))
        for first in range(0, n_blocks, blocks)
    ]
    page = ask("SELECT current_setting('block_size')::int4 AS n")[0]["n"]
    storage = Storage("blocks", tuple(sizes), float(n_blocks * page), block=page)
    return Blocks(ask, schema, asked, blocks, storage)


def text(value: str) -> str:
    """A text as SQL writes it, whatever `standard_conforming_strings` is."""
    return "E'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def width(ask: Ask, asked: Asked) -> int | None:
    """The number of features in an array of numbers; None for other features, or other labels."""
    kinds = ask(KINDS.format(asked.label, asked.features, asked.table))
    if not kinds or kinds[0]["y"] not in LABELS or kinds[0]["x"] not in ARRAYS:
        return None
    n = ask(WIDTH.format(asked.features, asked.table))[0]["n"]
    return None if n is None else int(n)


def train_on_part(ask: Ask, schema: str, asked: Asked) -> Models | str | None:
    """A model trained on a part of the table; None to read all rows. If these are to explain
    the comparison, the handle of the comparison.
    """
    try:
        task = task_named(asked.task)
        request = Request(task, options_of(task, asked.options))
    except TuskError:
        return None  # the training on all rows says why
    learner, names = learner_of(task), request.options.feature_names
    if not learner.streamed.is_wanted(request) and not request.options.explain:
        return None
    source = blocks_of(ask, schema, asked)
    n_features = width(ask, asked) if source is not None and source.sizes else None
    if source is None or n_features is None or len(names or [0] * n_features) != n_features:
        return None
    models = None
    if learner.streamed.is_wanted(request):
        models = learner.streamed.train(source, request, n_features)
    if models is not None:
        return models if names is None else replace(models, features=Names.same(names, 1))
    plans = None
    if request.options.explain:
        plans = learner.streamed.plans(source.storage, request, n_features)
    return None if plans is None else handle_of(asked.task, plans)


def trainer(version: str) -> Callable[..., tuple[str | None, bool]]:
    """The function that PL/Python calls: the handle of a model that is trained, or of a comparison
    before the training on all rows, and which of them; None for neither. version: the package's.
    """
    backend.trainer(version)  # lets kernels see when the statement is cancelled

    def call(plpy: Any, schema: str, asked: Asked) -> tuple[str | None, bool]:
        def ask(query: str) -> list[dict[str, Any]]:
            return [dict(row) for row in plpy.cursor(query)]

        try:
            models = train_on_part(ask, schema, asked)
        except KeyboardInterrupt as error:
            plpy.execute("SELECT pg_sleep(0)")  # raises a pending interrupt or error of the server
            plpy.error(one_line(sentence(error)), sqlstate=state(error))
        except TuskError as error:
            plpy.error(one_line(sentence(error)), sqlstate=state(error))
        except plpy.SPIError as error:  # an error of a query, unchanged
            plpy.error(str(error), sqlstate=error.sqlstate)
        else:
            return (ready(models), True) if isinstance(models, Models) else (models, False)
        return None, False

    return call
