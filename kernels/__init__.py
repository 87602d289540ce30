"""Kernels that touch each row or weight, and their bindings."""

from pathlib import Path

from tuskml.errors import TuskError
from tuskml.kernels.instruction_sets import instruction_sets


def kernels_path() -> Path:
    """Path of the kernels' library: the best of its builds that the processor runs."""
    folder = Path(__file__).parent
    for suffix in instruction_sets():
        path = folder / f"_native{suffix}.so"
        if path.exists():
            return path
    others = ", ".join(sorted(path.name for path in folder.glob("_native*.so")))
    if others:
        raise TuskError(
            f"tuskml was compiled for another processor: this one does not run {others}; "
            "install it here, or from a wheel that was built with TUSKML_ISA=all"
        )
    raise TuskError(f"the kernels are not built: no _native*.so in {folder}, reinstall tuskml")
