"""Custom tasks: a loss in NumPy, or compiled, in addition to those of `tasks.py`.

A loss is a function of margins m = w.x + b and labels y, with its derivative by m and, for
Newton's method, its curvature, as in scikit-learn's losses (`sklearn._loss`) and MADlib's GLM
families. It works with all features of linear models: penalties, groups, sparse rows, statuses,
plans, predictions.
"""

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tuskml.errors import OptionError, nearest, one_of
from tuskml.kernels.open_rows import CALL, Floats, OwnLoss, Values
from tuskml.learners.linear.own.operators import check_new
from tuskml.learners.linear.tasks import OWN, RESPONSES, LinearTask
from tuskml.learners.tasks import ALIASES
from tuskml.udas.tasks import TASK_TABLE

STEP = 1e-4
TOLERANCE = 1e-3
"""Tolerance of the derivative against differences of the loss, relative to its size or 1."""
MARGINS = np.array([-1.9, -1.1, -0.35, 0.15, 0.7, 1.3, 2.2])
FUNCTION: Any = type(CALL()).__base__
"""Any function of ctypes."""


def register_task(
    name: str,
    *,
    loss: Values | None = None,
    derivative: Values | None = None,
    curvature: Values | None = None,
    address: Any = None,
    curved: bool = False,
    labels: str | tuple[float, float] = "numbers",
    response: str = "identity",
    likelihood: bool = False,
    formula: str | None = None,
) -> None:
    """Registers a loss as a task: `train_model(name, label, features)` then trains with it.

    loss, derivative, curvature: functions of margins and labels, float64 arrays of one shape (n,)
    with n up to 65,536, that return as many numbers, or one for all. The loss must be convex, and
    its derivative by the margin must have no jumps. Without curvature, the second derivative,
    `newton` is not available. address: instead of these functions, a C function of type `tk_loss`
    (an integer, a ctypes function, or a Numba cfunc), which any thread may call; curved: whether
    it fills in the curvature.
    labels: "numbers"; "classes", two values which the loss sees as -1 and 1; or (lowest, highest).
    response: what `predict` makes of a margin m: "identity"; "exp", exp(m); "logistic",
    1 / (1 + exp(-m)), which for classes is `predict_proba`. The training starts at the constant
    whose response is the mean of the labels.
    likelihood: the loss is a negative log-likelihood, and models get standard errors (with a
    curvature). formula: for `explain_training`.

    A second call with the same name replaces the task. Raises OptionError for invalid arguments,
    such as a derivative that does not belong to the loss.

    >>> register_task("asinh", loss=lambda m, y: np.hypot(1, m - y) - 1,
    ...               derivative=lambda m, y: (m - y) / np.hypot(1, m - y))
    >>> unregister_task("asinh")
    """
    check_new("task", name, [*TASK_TABLE, *ALIASES])
    if response not in RESPONSES:
        raise OptionError(
            f"response is {response!r}, expected {one_of(RESPONSES)}"
            f"{nearest(str(response), RESPONSES)}"
        )
    low, high = bounds(labels, response)
    classes = labels == "classes"
    own = own_loss(name, loss, derivative, curvature, address, curved)
    has_curvature = own.curvature is not None or own.curved
    if likelihood and not has_curvature:
        raise OptionError(
            f"task '{name}' is a likelihood, whose standard errors need curvature: give it"
        )
    if own.address is None:
        check_derivatives(own, sample_labels(classes, low, high))
    OWN[name] = LinearTask(
        name,
        formula or f"{name}(m, y)",
        classes,
        test="z" if likelihood else None,
        loss=1 if classes else 0,
        own=own,
        response=response,
        low=low,
        high=high,
    )


def unregister_task(name: str) -> None:
    """Removes a registered task; its models predict as before."""
    if name not in OWN:
        raise OptionError(
            f"no task '{name}' is registered, expected "
            + (f"{one_of(OWN)}{nearest(name, OWN)}" if OWN else "a registered one")
        )
    del OWN[name]


def bounds(labels: object, response: str) -> tuple[float, float]:
    """The smallest and largest label."""
    if labels == "classes" and response != "exp":
        return -math.inf, math.inf
    if labels == "classes":
        raise OptionError("response 'exp' is for numbers, expected 'identity' or 'logistic'")
    if labels == "numbers":
        return {"identity": (-math.inf, math.inf), "exp": (0.0, math.inf), "logistic": (0.0, 1.0)}[
            response
        ]
    if isinstance(labels, tuple | list) and len(labels) == 2:
        low, high = (float(bound) for bound in labels)
        if low < high:
            return low, high
    raise OptionError(f"labels is {labels!r}, expected 'numbers', 'classes' or (lowest, highest)")


def own_loss(
    name: str,
    loss: Values | None,
    derivative: Values | None,
    curvature: Values | None,
    address: Any,
    curved: bool,
) -> OwnLoss:
    """The functions, or the address, and not both."""
    if address is not None:
        if loss is not None or derivative is not None or curvature is not None:
            raise OptionError(
                f"task '{name}' has an address and functions, expected one or the other"
            )
        return OwnLoss(name, None, None, None, number_of(address), bool(curved))
    for part, function in (("loss", loss), ("derivative", derivative)):
        if not callable(function):
            raise OptionError(
                f"{part} of task '{name}' is {function!r}, expected a function of margins and "
                "labels"
            )
    if curvature is not None and not callable(curvature):
        raise OptionError(
            f"curvature of task '{name}' is {curvature!r}, expected a function of margins and "
            "labels, or None"
        )
    return OwnLoss(name, loss, derivative, curvature, None, curvature is not None)


def number_of(address: Any) -> int:
    """The address of a compiled function."""
    value: Any = getattr(address, "address", address)  # a Numba cfunc
    if isinstance(value, ctypes.c_void_p | FUNCTION):
        value = ctypes.cast(value, ctypes.c_void_p).value
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise OptionError(f"address is {address!r}, expected a compiled function or its address")
    return value


def sample_labels(classes: bool, low: float, high: float) -> Floats:
    """Some allowed labels."""
    if classes:
        return np.array([-1.0, 1.0])
    if math.isfinite(low) and math.isfinite(high):
        return np.linspace(low, high, 5)
    if math.isfinite(low):
        return low + np.array([0.0, 1.0, 2.0, 5.0])
    if math.isfinite(high):
        return high - np.array([0.0, 1.0, 2.0, 5.0])
    return np.array([-1.75, -0.5, 0.0, 0.625, 2.5])


def check_derivatives(own: OwnLoss, labels: Floats) -> None:
    """Compares derivative and curvature with central differences, as scipy's check_grad does.

    A curvature may replace a second derivative that jumps: three of four points must agree.
    """
    y, m = (grid.ravel() for grid in np.meshgrid(labels, MARGINS, indexing="ij"))

    def at(part: str, function: Callable[..., Any], by: float) -> Floats:
        found = own.answer(part, function, m + by, y)
        return np.broadcast_to(found, m.shape)

    pairs = [("loss", own.loss, "derivative", own.derivative, 1.0)]
    if own.curvature is not None:
        pairs.append(("derivative", own.derivative, "curvature", own.curvature, 0.75))
    for below, function, above, slope, share in pairs:
        assert function is not None
        assert slope is not None
        expected = (at(below, function, STEP) - at(below, function, -STEP)) / (2 * STEP)
        given = at(above, slope, 0.0)
        wrong = ~(np.abs(given - expected) <= TOLERANCE * np.maximum(np.abs(expected), 1.0))
        if wrong.mean() > 1 - share or not np.isfinite(given).all():
            worst = int(np.flatnonzero(wrong | ~np.isfinite(given))[0])
            raise OptionError(
                f"task '{own.name}': {above} is {given[worst]:.6g} at margin {m[worst]:g} and "
                f"label {y[worst]:g}, where the {below} changes by {expected[worst]:.6g}"
            )
