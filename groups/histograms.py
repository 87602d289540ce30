"""Histograms that models keep of the rows that they were trained on: option `histogram`."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.groups.execution.choosing import is_place
from tuskml.kernels import passes
from tuskml.kernels.rows.histogram import histograms
from tuskml.learners.learner import Request
from tuskml.learners.models import Models, Strings
from tuskml.learners.remarks import Remarks
from tuskml.schedule import budget


def histograms_of(groups: NDArray[np.void], request: Request[Any, Any]) -> list[str] | None:
    """A histogram as JSON of each group, before its rows are prepared; None unless the option asks
    for them. Sparse rows, which the option refuses when they are read, have none.
    """
    options, held = request.options, request.held_out
    if not options.histogram or (groups["kind"] >= passes.KINDS.index("sparse float32")).any():
        return None
    apart = [] if options.cluster is None or is_place(options.cluster) else [options.cluster]
    if held is not None and held.column is not None:
        apart.append(held.column)
    return histograms(
        groups,
        options.threads or budget.threads(),
        passes.cancel_mark(),
        skips=options.missing == "skip",
        categories=options.categories or (),
        words=options.text or (),
        apart=apart,
        features=options.feature_names or (),
    )


def with_histograms(models: Models, found: list[str] | None) -> Models:
    """The models with the histograms of their groups; found: by the group's index."""
    if found is None:
        return models
    texts = tuple(found[group] for group in models.group.tolist())
    return replace(models, histogram=Strings(texts, np.arange(len(texts), dtype=np.int32)))


def with_gaps(models: Models, remarks: Mapping[int, Remarks]) -> Models:
    """The models, whose histograms count NULLs in rows that packers left out too; remarks: by the
    index of the model. Such a row has the mean weight of the others.
    """
    pool, code = list(models.histogram.pool), models.histogram.code
    for k, one in remarks.items():
        if code[k] < 0 or not one.gaps:
            continue
        found = json.loads(pool[code[k]])
        all_rows = int(models.n_rows[k]) + int(models.n_skipped[k])
        mean = found["rows"] / max(all_rows, 1)
        for place, column in enumerate(found["columns"]):
            gaps = sum(
                n
                for where, n in one.gaps.items()
                if (where.name == column["name"] if found["named"] else where.column == place)
            )
            column["nulls"] += gaps * mean
        pool[code[k]] = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return replace(models, histogram=Strings(tuple(pool), code))
