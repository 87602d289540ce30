"""What a part of a group's rows answers: the sums of its own rows."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.parts.hopping import epoch_of
from tuskml.kernels.parts.keeping import Beside
from tuskml.kernels.parts.message import Array, packed, unpacked
from tuskml.kernels.parts.sharded import ARRAYS
from tuskml.kernels.passes import Pass
from tuskml.kernels.rows.entries import entry_sums
from tuskml.kernels.rows.reach import margin_reach
from tuskml.kernels.softmax import Softmax, Steps, classes_of
from tuskml.kernels.trees.parted import binning, holding, part

Given = Mapping[str, Any]
Keeping = Callable[[Pass, list[Any], Given, Beside], list[Array]]


def answered(
    groups: NDArray[np.void] | None, message: bytes, threads: int, beside: Beside
) -> bytes:
    """The answer to a message of `ShardedPass`. groups: one group (kernels.GROUP), None: no row
    of it was usable; threads: how many may compute; beside: what is kept beside the rows.
    """
    header, arrays = unpacked(message)
    if header["method"] == "described":
        return packed({}, [described(groups)])
    assert groups is not None
    groups = groups.copy()
    groups["dim"] = header["d"]  # of sparse rows, the width of all parts
    own, rest = arrays[: len(ARRAYS)], arrays[len(ARRAYS) :]
    settings = {**header["settings"], **dict(zip(ARRAYS, own, strict=True))}
    rows = Pass(groups, threads=threads, **settings)
    method, given = header["method"], header["given"]
    if method in KEEPING:
        return packed({}, KEEPING[method](rows, rest, given, beside))
    found = METHODS[method](rows, rest, given)
    return packed({}, found)


def described(groups: NDArray[np.void] | None) -> NDArray[np.int64] | None:
    """Rows, features, kind and extras."""
    if groups is None:
        return None
    return np.array([int(groups[name][0]) for name in ("n_rows", "dim", "kind", "extras")])


def labels(rows: Pass, arrays: list[Any], given: Given) -> list[Array]:
    return [rows.labels().view(np.uint8)]


def near_one(rows: Pass, arrays: list[Any], given: Given) -> list[Array]:
    return [np.array([{False: 0, True: 1, None: 2}[rows.values_near_one()]])]


def softmax_of(arrays: list[Any]) -> tuple[Softmax, list[Any]]:
    """The classes, and the other arrays."""
    return Softmax(arrays[0], arrays[1]), arrays[2:]


def sgd(rows: Pass, arrays: list[Any], given: Given) -> list[Array | None]:
    """An epoch over the part: the weights, the mean of the iterates and the loss."""
    return stepped(rows, arrays, given, given["shared"])


def softmax_sgd(rows: Pass, arrays: list[Any], given: Given) -> list[Array | None]:
    classes, rest = softmax_of(arrays)
    return stepped(Steps(classes, rows, given["reference"]), rest, given, shared=False)


def stepped(
    rows: Pass | Steps, arrays: list[Any], given: Given, shared: bool
) -> list[Array | None]:
    weights = arrays[0]
    average = np.empty_like(weights) if given["averaged"] else None
    loss = rows.sgd(epoch_of(given["epoch"], arrays[1:]), weights, average, shared)
    return [weights, average, loss]


def softmax_scores(rows: Pass, arrays: list[Any], given: Given) -> list[Array]:
    classes, (weights, shift, scale, inverse) = softmax_of(arrays)
    leverage = None if inverse is None else (inverse, given["power"])
    return [classes.scores(rows, weights, (shift, scale), False, leverage)[0]]


def of_classes(method: str) -> Callable[[Pass, list[Any], Given], list[Array]]:
    """A method of `Softmax` that takes rows and arrays."""

    def answer(rows: Pass, arrays: list[Any], given: Given) -> list[Array]:
        classes, rest = softmax_of(arrays)
        return [getattr(classes, method)(rows, *rest)]

    return answer


def counted_classes(rows: Pass, arrays: list[Any], given: Given) -> list[Array]:
    label, count, size = classes_of(rows, given["most"])
    return [label[0], count[0], np.array(size)]


METHODS: dict[str, Callable[[Pass, list[Any], Given], Any]] = {
    "labels": labels,
    "feature_moments": lambda rows, _, given: rows.feature_moments(given["sample"]),
    "feature_counts": lambda rows, _, __: rows.feature_counts(),
    "values_near_one": near_one,
    "entries": lambda rows, _, __: [rows.entries()],
    "gradient": lambda rows, arrays, _: [rows.gradient(*arrays)],
    "curvature": lambda rows, arrays, given: [rows.curvature(*arrays, **given)],
    "size_likelihood": lambda rows, arrays, _: [rows.size_likelihood(*arrays)],
    "squared_scores": lambda rows, arrays, given: [rows.squared_scores(*arrays, **given)],
    "sgd": sgd,
    "entry_sums": lambda rows, _, __: entry_sums(rows),
    "margin_reach": lambda rows, arrays, _: [margin_reach(rows, *arrays)],
    "softmax_gradient": of_classes("gradient"),
    "softmax_curvature": of_classes("curvature"),
    "softmax_reach": of_classes("reach"),
    "softmax_sgd": softmax_sgd,
    "softmax_scores": softmax_scores,
    "classes": counted_classes,
}
KEEPING: dict[str, Keeping] = {
    "tree_hashes": lambda rows, _, given, __: holding.hashes(rows, given),
    "tree_ranks": lambda rows, arrays, given, __: holding.ranks(rows, arrays, given),
    "tree_about": binning.about,
    "tree_values": binning.values,
    "tree": part.answered,
}
"""Those that keep something beside the rows from message to message."""
