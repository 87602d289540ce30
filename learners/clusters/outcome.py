"""The models of `kmeans`: their coefficients, statuses and plans.

A model's `coef` (`udas/scalars/clusters/clusters.h`) is the number of features d; the number of
centres k; 1 where features are standardized, else 0; in the first case the factor of each feature,
(d,); and then for each centre the weight of its rows and its coordinates, (k, 1 + d).
"""

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.clusters import ALGORITHMS, FEW, ITERATIONS, LATE, OUT_OF_RANGE, ClusterResult
from tuskml.kernels.passes import Floats
from tuskml.learners.clusters.options import OPTIONS, ClusterOptions
from tuskml.learners.explaining import Document, document
from tuskml.learners.learner import Request
from tuskml.learners.models import Lists, Models, Strings, options_text, thin_history, threads_text
from tuskml.learners.tasks import Task

HEAD = 3
"""Numbers before those of features and centres."""
STATUSES = ("ok", "not converged", "time limit", "out of range", "fewer centres")
BY_ENDING = {
    ITERATIONS: "not converged",
    LATE: "time limit",
    OUT_OF_RANGE: "out of range",
    FEW: "fewer centres",
}
"""The status of a training by how it ended; of others it is `ok`."""
UNTOLD = ("format", "feature_names", "histogram")
"""Options that are not about the training."""


def head_of(n_features: int, centres: int, standardized: bool) -> list[float]:
    """The numbers before those of features and centres."""
    return [float(n_features), float(centres), float(standardized)]


def centres_in(coef: Floats) -> tuple[Floats | None, Floats]:
    """Returns the factors of standardized features, (d,) or None, and the centres, (k, 1 + d), as
    views.
    """
    d, k, standardized = (int(one) for one in coef[:HEAD])
    first = HEAD + d * standardized
    return coef[HEAD:first] if standardized else None, coef[first:].reshape(k, d + 1)


def widen_centres(coef: Floats, n_features: int) -> Floats:
    """Returns the same centres with the coordinate 0 for features beyond the last one."""
    factors, centres = centres_in(coef)
    more = n_features - (centres.shape[1] - 1)
    parts = [head_of(n_features, len(centres), factors is not None)]
    if factors is not None:
        parts.append(np.pad(factors, (0, more)))
    return np.concatenate([*parts, np.pad(centres, ((0, 0), (0, more))).ravel()])


def models_of(
    groups: NDArray[np.void], found: ClusterResult, request: Request[Task, ClusterOptions]
) -> Models:
    """Makes the models of groups from their trained centres."""
    options, about, n = request.options, found.about, len(groups)
    status = [BY_ENDING.get(ending, "ok") for ending in about["ending"].tolist()]
    lost = about["ending"] == OUT_OF_RANGE
    coef = []
    for numbers, d, k in zip(
        found.numbers, groups["dim"].tolist(), about["centres"].tolist(), strict=True
    ):
        used = numbers[: d * options.standardize + k * (d + 1)]
        coef.append(np.concatenate([head_of(d, k, options.standardize), used]) if k else used)
    return Models.build(
        groups,
        request.task.name,
        coef=Lists.of_parts(coef),
        intercept=np.full(n, np.nan),
        loss=np.where(lost, np.nan, about["loss"]),
        history=thin_history(list(found.history.T), n),
        iterations=about["iterations"].copy(),
        converged=np.array([one in ("ok", "fewer centres") for one in status], np.uint8),
        status=Strings.of(status, STATUSES),
        plan=plans_of(about, options),
        options=options_json(options),
    )


def plans_of(about: NDArray[np.void], options: ClusterOptions) -> Strings:
    """The plan text of each group."""
    kinds, code = np.unique(about[["algorithm", "centres"]], return_inverse=True)
    texts = tuple(
        plan_of(options, ALGORITHMS[algorithm], centres) for algorithm, centres in kinds.tolist()
    )
    return Strings(texts, code.reshape(-1).astype(np.int32))


def plan_of(options: ClusterOptions, algorithm: str, centres: int) -> str:
    """Describes the training in one line."""
    how = {
        "auto": "Lloyd's iterations, in large groups after mini-batches",
        "lloyd": "Lloyd's iterations",
        "minibatch": f"mini-batches of {options.batch_size} rows, then Lloyd's iterations",
    }[algorithm]
    units = ", standardized features" if options.standardize else ""
    return (
        f"{algorithm}, {how}, {centres} centre{'s' if centres != 1 else ''}, the best of "
        f"{options.starts} start{'s' if options.starts > 1 else ''} by k-means++{units}, "
        f"{threads_text(options)}"
    )


def options_json(options: ClusterOptions) -> str:
    """The options in force, as JSON that starts with the version of the format."""
    names = (name for name in OPTIONS.by_name if name not in UNTOLD)
    return options_text(options, names, max_iter=options.iterations)


def explain(group: NDArray[np.void], request: Request[Task, ClusterOptions]) -> Document:
    """Explains the training of one group."""
    options = request.options
    asked = "algorithm" in options.given
    return document(
        group,
        request.task.name,
        f"mean {request.task.formula}",
        request.reading,
        plan={
            "algorithm": options.algorithm,
            "description": plan_of(options, options.algorithm, options.clusters),
            "because": "asked for" if asked else "the default of the option `algorithm`",
            "order": "by a seeded hash of the rows' content; equal rows are one",
            "threads": options.threads,
            "max_iter": options.iterations,
            "epsilon": options.epsilon or 0.0,
            "converge": "loss",
            "time": options.time,
        },
    )
