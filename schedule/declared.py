"""Native libraries as Python calls them: what their headers declare, which the build writes down.

`scripts/build/declarations.py` writes `_native.json` beside each library.
"""

import ctypes
import json
import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tuskml.errors import TuskError

ADDRESS = ctypes.c_void_p
NUMBERS: dict[str, Any] = {
    "char": ctypes.c_char,
    "int": ctypes.c_int,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    **{f"int{bits}_t": getattr(ctypes, f"c_int{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}_t": getattr(ctypes, f"c_uint{bits}") for bits in (8, 16, 32, 64)},
}
"""Types of ctypes by their names in C."""
Structure = TypeVar("Structure", bound=type[ctypes.Structure])


class Interface:
    """The functions, structures and constants that the headers of a folder's library declare."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "_native.json"
        self.classes: dict[str, type[ctypes.Structure]] = {}
        """The classes of structures, by their names in C."""
        self._libraries: list[ctypes.CDLL] = []  # several if threads declare it at a time
        self._lock = threading.Lock()

    @cached_property
    def declarations(self) -> dict[str, Any]:
        """What the build read: `functions`, `structures` and `constants` by name."""
        if not self._file.exists():
            raise TuskError(f"a library is not built: no {self._file}, reinstall tuskml")
        declared: dict[str, Any] = json.loads(self._file.read_text())
        return declared

    def constant(self, name: str) -> int:
        """The value of an enumerator or of a macro; `LossKind.hinge` is one of an enum class."""
        return int(self.declarations["constants"][name])

    def constants(self, prefix: str, names: str) -> list[int]:
        """The values of several constants, whose names after the prefix are words of a text."""
        return [self.constant(prefix + name) for name in names.split()]

    def structure(self, name: str, **types: Any) -> Callable[[Structure], Structure]:
        """A decorator that gives a class the fields of a structure of C.

        Pointers are addresses, but for the fields that have other types here. Functions of a
        library that was declared before take the class from then on.
        """

        def with_fields(made: Structure) -> Structure:
            fields = self.declarations["structures"][name]
            made._fields_ = [(field, types.get(field) or self._type(t)) for field, t in fields]
            with self._lock:
                self.classes[name] = made
                for library in self._libraries:
                    self._give_types(library, of=f"{name}*")
            return made

        return with_fields

    def dtype(self, name: str) -> np.dtype[Any]:
        """The type of an array's items that are structures of C; pointers are `uintp`."""
        fields = self.declarations["structures"][name]
        return np.dtype([(field, self._item(kind)) for field, kind in fields], align=True)

    def declare(self, library: ctypes.CDLL) -> ctypes.CDLL:
        """Gives each function of the library its types.

        A structure that has a class is passed as it is or by `byref`; arrays, handles and other
        results by pointer are addresses: an int, None for NULL, or `byref`.
        """
        with self._lock:
            self._libraries.append(library)
            self._give_types(library)
        return library

    def _give_types(self, library: ctypes.CDLL, of: str | None = None) -> None:
        """Gives types to all functions, or to those with an argument of one type."""
        for name, (result, arguments) in self.declarations["functions"].items():
            if of is None or of in arguments:
                function = getattr(library, name)
                function.restype = self._argument_type(result.removeprefix("const "))
                function.argtypes = [self._argument_type(kind) for kind in arguments]

    def _argument_type(self, kind: str) -> Any:
        if kind == "void":
            return None
        if kind.endswith("*") and kind[:-1] in self.classes:
            return ctypes.POINTER(self.classes[kind[:-1]])
        return ctypes.c_char_p if kind == "const char*" else self._type(kind)

    def _type(self, kind: str) -> Any:
        base, _, size = kind.rstrip("]").partition("[")
        type_ = NUMBERS.get(base, ADDRESS)
        return type_ * self._size(size) if size else type_

    def _size(self, written: str) -> int:
        return int(written) if written.isdigit() else self.constant(written)

    def _item(self, kind: str) -> Any:
        base, _, size = kind.rstrip("]").partition("[")
        if base in self.declarations["structures"]:
            item = self.dtype(base)
        else:
            item = np.dtype(NUMBERS.get(base, np.uintp))
        return (item, (self._size(size),)) if size else item
