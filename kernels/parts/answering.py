"""Replies of a part of a group's rows: the sums over its own rows."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.nets.pieces import rows_in_units
from tuskml.kernels.nets.training import ByGroup, Rules
from tuskml.kernels.nets.visits import NetOnRows, VisitResult, compute_losses, moments
from tuskml.kernels.nets.visits import make_steps as stepped_net
from tuskml.kernels.parts import factors, topics
from tuskml.kernels.parts.dealing import hashes, key_counts
from tuskml.kernels.parts.hopping import epoch_of
from tuskml.kernels.parts.keeping import Beside, PartRows
from tuskml.kernels.parts.message import Array, pack_message, unpack_message
from tuskml.kernels.parts.paths import answer_message as answer_path
from tuskml.kernels.parts.sharded import ARRAYS, entry_sums, margin_reach
from tuskml.kernels.passes import Pass, leaks
from tuskml.kernels.softmax import Softmax, Steps, classes_of
from tuskml.kernels.trees.parted import bagged_part, binning, part

Given = Mapping[str, Any]
Keeping = Callable[[Pass, list[Any], Given, Beside], Sequence[Array | None]]


def answer_message(rows: PartRows, message: bytes, threads: int) -> bytes:
    """Reply to a message of `ShardedPass`; without arrays if it has none of the rows.

    threads: number that may compute.
    """
    header, arrays = unpack_message(message)
    if header["method"] == "described":
        about = {"remarks": rows.remarks, "words": rows.beside.words is not None}
        return pack_message(about, [describe_groups(rows.of(header["folds"]))])
    if header["method"] == "told":
        return pack_message({}, rows.told)
    mine = pass_of(rows, header, arrays, threads)
    if mine is None:
        return pack_message({})
    rest, method, given = arrays[len(ARRAYS) :], header["method"], header["given"]
    if method in KEEPING:
        return pack_message({}, KEEPING[method](mine, rest, given, rows.beside))
    reply = METHODS[method](mine, rest, given)
    return pack_message({}, reply)


def pass_of(rows: PartRows, header: Given, arrays: Sequence[Any], threads: int) -> Pass | None:
    """Rows that a message refers to; None if there are none."""
    groups = rows.of(header["folds"])
    if groups is None or not groups["n_rows"].all():
        return None
    groups = groups.copy()
    groups["dim"] = header["d"]  # sparse rows have the width of all parts
    own = dict(zip(ARRAYS, arrays[: len(ARRAYS)], strict=True))
    return Pass(groups, threads=threads, **header["settings"], **own)


def describe_groups(groups: NDArray[np.void] | None) -> NDArray[np.int64] | None:
    """Number of rows, features, kind and extras."""
    if groups is None:
        return None
    return np.array([int(groups[name][0]) for name in ("n_rows", "dim", "kind", "extras")])


def labels(rows: Pass, arrays: list[Any], given: Given) -> list[Array]:
    return [rows.labels().view(np.uint8)]


def near_one(rows: Pass, arrays: list[Any], given: Given) -> list[Array]:
    return [np.array([{False: 0, True: 1, None: 2}[rows.values_near_one()]])]


def softmax_of(arrays: list[Any]) -> tuple[Softmax, list[Any]]:
    """Splits arrays into classes and the rest."""
    return Softmax(arrays[0], arrays[1]), arrays[2:]


def sgd(rows: Pass, arrays: list[Any], given: Given) -> list[Array | None]:
    """Runs an epoch over the part; returns weights, mean of the iterates and loss."""
    return answer_step(rows, arrays, given, given["shared"])


def softmax_sgd(rows: Pass, arrays: list[Any], given: Given) -> list[Array | None]:
    classes, rest = softmax_of(arrays)
    return answer_step(Steps(classes, rows, given["reference"]), rest, given, shared=False)


def answer_step(
    rows: Pass | Steps, arrays: list[Any], given: Given, shared: bool
) -> list[Array | None]:
    weights = arrays[0]
    average = np.empty_like(weights) if given["averaged"] else None
    loss = rows.sgd(epoch_of(given["epoch"], arrays[1:]), weights, average, shared)
    return [weights, average, loss]


def softmax_scores(rows: Pass, arrays: list[Any], given: Given) -> list[Array]:
    classes, (weights, shift, scale, inverse) = softmax_of(arrays)
    leverage = None if inverse is None else (inverse, given["power"], given["squared"])
    return [classes.scores(rows, weights, (shift, scale), False, leverage)[0]]


def of_classes(method: str) -> Callable[[Pass, list[Any], Given], list[Array]]:
    """Wraps a method of `Softmax` that takes rows and arrays."""

    def answer(rows: Pass, arrays: list[Any], given: Given) -> list[Array]:
        classes, rest = softmax_of(arrays)
        return [getattr(classes, method)(rows, *rest)]

    return answer


def count_classes(rows: Pass, arrays: list[Any], given: Given) -> list[Array]:
    label, count, size = classes_of(rows, given["most"])
    return [label[0], count[0], np.array(size)]


def of_net(visit: Callable[..., VisitResult]) -> Keeping:
    """Wraps a visit of a net; replies with state, loss, row weight, steps, and whether time was
    over.
    """

    def answer(rows: Pass, arrays: list[Any], given: Given, beside: Beside) -> list[Array]:
        classes, class_weight, units, state = arrays
        by_group = ByGroup(classes=classes, class_weight=class_weight)
        net = NetOnRows(rows, Rules.read(given["rules"]), by_group, units, beside.memory)
        visited = visit(net, state, **given["where"])
        return [state, np.array([visited.loss, visited.weight, visited.steps, visited.late])]

    return answer


def net_rows(rows: Pass, arrays: list[Any], given: Given, beside: Beside) -> list[Array | None]:
    """Prepares the rows for a net."""
    classes, class_weight, units = arrays
    by_group = ByGroup(classes=classes, class_weight=class_weight)
    units_rows = rows_in_units(rows, Rules.read(given["rules"]), by_group, units, beside.memory)
    return [units_rows.x, units_rows.y, units_rows.weight]


METHODS: dict[str, Callable[[Pass, list[Any], Given], Any]] = {
    "labels": labels,
    "feature_moments": lambda rows, _, given: rows.feature_moments(given["sample"]),
    "feature_counts": lambda rows, _, __: rows.feature_counts(),
    "values_near_one": near_one,
    "entries": lambda rows, _, __: [rows.entries()],
    "leaks": lambda rows, _, given: [leaks(rows.groups, given["least"])],
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
    "classes": count_classes,
    "rating_ids": factors.ids,
    "count_ratings": factors.count_ratings,
    "row_hashes": hashes,
    "key_counts": key_counts,
}
KEEPING: dict[str, Keeping] = {
    "net_steps": of_net(stepped_net),
    "net_losses": of_net(compute_losses),
    "net_rows": net_rows,
    "net_moments": lambda rows, _, given, __: [*moments(rows, Rules.read(given["rules"]))],
    "path": answer_path,
    "tree_about": binning.about,
    "tree_values": binning.values,
    "tree": part.answer_message,
    "bagged_tree": bagged_part.answer_message,
    "deal_users": factors.deal,
    "factors": factors.answer,
    "topic_words": topics.count_words,
    "open_topics": topics.open_part,
    "topics": topics.answer,
}
"""Methods that copy rows, which is charged to an account, or keep state with them between
messages.
"""
