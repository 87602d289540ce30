"""A group in parts whose linear model with an L1 penalty is trained by scheduled updates.

Each part has its rows by column, the margins of its rows and minus the derivatives of their losses
(`native/paths/part.cpp`). A message changes some weights, and asks for sums over the rows for
features that are to be updated next. It has the number of the state that it continues. A part
without that state, such as one on a worker that took it over, answers nothing, and the message is
sent again with all weights.
"""

import ctypes
import secrets
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.parts.keeping import Beside
from tuskml.kernels.parts.merging import merge_moments
from tuskml.kernels.parts.message import Array, unpack_message
from tuskml.kernels.parts.sharded import ShardedPass, add_arrays
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.structures import KERNELS

KEPT = METHOD = "path"
"""Key of the part in the state kept with the rows, and the method of messages."""
SETUP = 5
"""Number of arrays at the end of a message that has all weights."""
Features = NDArray[np.int32]
(SUMS,) = KERNELS.constants("TK_PATH_", "SUMS")


@KERNELS.structure("tk_path_step")
class Step(ctypes.Structure):
    """The C structure `tk_path_step`."""


class PathPart:
    """The rows of a part. name: of the training whose weights it has; serial: the number of
    changes so far; folds: those of the rows.
    """

    def __init__(self, rows: Pass, folds: Any, memory: int) -> None:
        self.handle, self.folds, self.loss = ctypes.c_void_p(), folds, rows.loss
        self.width, self.name, self.serial = rows.n_features, "", -1
        self.n_rows = int(rows.groups["n_rows"][0])
        arguments = rows.loss, memory or None, ctypes.byref(self.handle)
        check_code(library().tk_path_part_new(rows.struct, *arguments), "a copy of the rows")

    def close(self) -> None:
        """Frees the native part."""
        library().tk_path_part_free(self.handle)
        self.handle = ctypes.c_void_p()

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a native function of the part."""
        check_code(getattr(library(), f"tk_path_part_{name}")(self.handle, *arguments))

    def moments(self) -> list[Array]:
        """Weight (1,) of the rows, and the features' means and variances, (d,)."""
        found = np.empty(1), np.empty(self.width), np.empty(self.width)
        self.call("moments", *map(pointer, found))
        return list(found)

    def start(self, total: float, setup: list[Any]) -> None:
        """Begins with the centres, scales, and all nonzero weights of a message."""
        centre, scale, constant, changed, weight = setup
        self.call("start", total, pointer(centre), pointer(scale))
        self.step(float(constant[0]), changed, weight, np.zeros(0, np.int32))

    def step(
        self, constant: float, changed: Features, weight: Floats, picked: Features
    ) -> list[Array]:
        """Changes weights; the sums for the features picked, and those over all rows, (SUMS,)."""
        pull, curvature, sums = np.empty(len(picked)), np.empty(len(picked)), np.empty(SUMS)
        arrays = pointer(changed), pointer(weight), pointer(picked)
        step = Step(constant, len(changed), len(picked), *arrays)
        self.call("step", step, pointer(pull), pointer(curvature), pointer(sums))
        return [pull, curvature, sums]

    def look(self, shift: float) -> list[Array]:
        """The sums for all features, (d,), and two over all rows."""
        pull, sums = np.empty(self.width), np.empty(2)
        self.call("look", shift, pointer(pull), pointer(sums))
        return [pull, sums]

    def dual(self, shift: float, factor: float) -> list[Array]:
        """The dual's sum over the rows, (1,)."""
        out = np.empty(1)
        self.call("dual", shift, factor, pointer(out))
        return [out]

    def sample(self, share: float, features: Features) -> list[Array]:
        """Columns of a share of the rows, (k, rows)."""
        rows = max(round(share * self.n_rows), 1)
        out = np.empty((len(features), rows), np.float32)
        self.call("sample", rows, len(features), pointer(features), pointer(out))
        return [out]


def answer_message(
    rows: Pass, arrays: list[Any], given: Mapping[str, Any], beside: Beside
) -> list[Any]:
    """Reply to a message of `PathRows`; None if the part lacks the state."""
    part, do = beside.kept.get(KEPT), given["do"]
    if not isinstance(part, PathPart) or part.folds != given["rows"]:
        if do != "moments" and "total" not in given:
            return [None]
        if part is not None:
            beside.kept.pop(KEPT).close()
        beside.kept[KEPT] = part = PathPart(rows, given["rows"], beside.memory)
    if do == "moments":
        return part.moments()
    steps = do == "step"
    if "total" in given:
        part.start(given["total"], arrays[-SETUP:])
        part.name, part.serial = given["name"], given["serial"] - steps
    if part.name != given["name"] or part.serial != given["serial"] - steps:
        return [None]
    part.serial += steps
    return ANSWERS[do](part, arrays, given)


ANSWERS: dict[str, Callable[[PathPart, list[Any], Mapping[str, Any]], list[Array]]] = {
    "step": lambda part, arrays, _: part.step(float(arrays[0][0]), *arrays[1:4]),
    "look": lambda part, _, given: part.look(given["shift"]),
    "dual": lambda part, _, given: part.dual(given["shift"], given["factor"]),
    "sample": lambda part, arrays, given: part.sample(given["share"], arrays[0]),
}


class PathRows:
    """The rows of all parts, for one training at a time; its calls may come from several threads.

    weight: of all rows; mean, deviation: of the features, (d,).
    """

    def __init__(self, rows: ShardedPass) -> None:
        self.rows, self.name, self.serial = rows, "", 0
        self.lock = threading.Lock()
        self.weights, self.constant = np.zeros(rows.n_features), 0.0
        self.setup: list[Array] = []
        replies = self.replies(self.message("moments", []))
        self.places = [place for place, one in enumerate(replies) if one]
        found = [one for one in replies if one]
        weight = np.concatenate([one[0] for one in found])
        mean, variance = (np.stack([one[k] for one in found])[:, None] for k in (1, 2))
        self.weight = float(add_arrays(list(weight)))
        both = merge_moments(weight, mean, np.sqrt(variance))
        self.mean, self.deviation = both[0][0], both[1][0]

    def replies(self, message: bytes) -> list[list[Any]]:
        """The reply of each part; an empty one of a part without rows."""
        assert self.rows.parts is not None
        return [unpack_message(one)[1] for one in self.rows.parts.ask(message)]

    def message(self, do: str, arrays: list[Array], **given: Any) -> bytes:
        """The message to a part."""
        about = {"do": do, "name": self.name, "serial": self.serial, "rows": self.rows.whose}
        return self.rows.message(METHOD, arrays, {**about, **given})

    def start(self, centre: Floats, scale: Floats) -> None:
        """Begins a training with weights 0."""
        self.name, self.serial = secrets.token_hex(8), 0
        self.setup, self.weights[:], self.constant = [centre, scale], 0.0, 0.0

    def ask(self, do: str, arrays: list[Array], **given: Any) -> list[list[Array]]:
        """The reply of each part with rows. Those that lack the state are asked again."""
        assert self.rows.parts is not None
        found = self.replies(self.message(do, arrays, **given))
        lost = {place for place in self.places if found[place][0] is None}
        if lost:
            support = np.flatnonzero(self.weights).astype(np.int32)
            own = np.array([self.constant]), support, self.weights[support]
            anew = self.message(do, [*arrays, *self.setup, *own], total=self.weight, **given)
            again = self.rows.parts.ask_some(dict.fromkeys(sorted(lost), anew))
            for place, one in zip(sorted(lost), again, strict=True):
                found[place] = unpack_message(one)[1]
        return [found[place] for place in self.places]

    def step(
        self, constant: float, changed: Features, weight: Floats, picked: Features
    ) -> list[Array]:
        """Changes weights. Sums of z.t and of h z^2 for the features picked, and of the loss, t
        and h over all rows (`native/paths/api.h`)."""
        with self.lock:
            self.serial += 1
            found = self.ask("step", [np.array([constant]), changed, weight, picked])
            self.weights[changed], self.constant = weight, constant
        return [add_arrays([one[k] for one in found]) for k in range(3)]

    def look(self, shift: float) -> list[Array]:
        """Sums for all features, (d,), and of t'^2 / a and t' (y - margin)."""
        with self.lock:
            found = self.ask("look", [], shift=shift)
        return [add_arrays([one[k] for one in found]) for k in range(2)]

    def dual(self, shift: float, factor: float) -> float:
        """The dual's sum over all rows."""
        with self.lock:
            found = self.ask("dual", [], shift=shift, factor=factor)
        return float(add_arrays([one[0] for one in found])[0])

    def sample(self, share: float, features: Features) -> NDArray[np.float32]:
        """Columns of a share of each part's rows, (k, rows)."""
        with self.lock:
            found = self.ask("sample", [features], share=share)
        return np.concatenate([one[0] for one in found], axis=1)
