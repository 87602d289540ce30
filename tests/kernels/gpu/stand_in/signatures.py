"""What a kernel's text says of its parameters, and whether arguments of a launch are that.

A GPU takes each argument's bytes as the parameter's type without a look at what they were.
"""

import functools
import re

import numpy as np

SCALARS = {
    "int": np.int32, "int64": np.int64, "uint64": np.uint64, "float": np.float32,
    "double": np.float64,
}  # fmt: skip
RECORDS = {"Chunk": np.uint8, "Span": np.uint8, "Rating": np.int32}
"""Of arrays of records, what the device's array has: bytes, or rows of the record's words."""


@functools.cache
def parameters(source):
    """(name, type, whether it is a pointer) of each of a kernel's parameters."""
    text = source.text()
    macros = {name: str(value) for name, value in source.macros}
    joined = re.sub(r"\\\n", " ", text)
    macros |= dict(re.findall(r"#define (LOSS_PARAMETERS)\s+(.*)", joined))
    text = re.sub(r"//.*", "", joined)
    head = re.search(
        r"__global__ void __launch_bounds__\([^)]*\)\s*" + source.kernel + r"\(([^)]*)\)", text
    )
    assert head, source.kernel
    listed = head[1]
    for name, value in macros.items():
        listed = re.sub(rf"\b{name}\b", value, listed)
    found = []
    for each in listed.split(","):
        words = each.replace("*", " * ").split()
        words = [word for word in words if word != "const"]
        found.append((words[-1], words[0], "*" in words))
    return tuple(found)


def refusals(source, arguments, is_array):
    """What does not fit, as sentences; is_array: tells the device's arrays."""
    wanted = parameters(source)
    if len(wanted) != len(arguments):
        return [f"{source.kernel} has {len(wanted)} parameters, got {len(arguments)}"]
    found = []
    for (name, kind, points), given in zip(wanted, arguments, strict=True):
        if points:
            known = SCALARS.get(kind) or RECORDS[kind]
            if given is None:
                continue
            fits = is_array(given) and given.dtype == known and given.flags.c_contiguous
        else:
            known = SCALARS[kind]
            fits = isinstance(given, np.generic) and given.dtype == known
        if not fits:
            said = "an array" if is_array(given) else type(given).__name__
            kind_of = getattr(given, "dtype", "no type")
            found.append(
                f"{source.kernel}: {name} is {kind}{' *' * points}, got {said} of {kind_of}"
            )
    return found
