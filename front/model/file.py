"""A model as JSON text: versioned, checked, the same on every machine.

The checksum is that of the content, not of the text: white space and the order of members may
change on the way, values may not. Doubles are written with the fewest digits that give the same
double again (Python's repr; Steele and White, How to print floating-point numbers accurately,
PLDI 1990), those that JSON does not have as 'NaN', 'Infinity' and '-Infinity'.
"""

import hashlib
import json
import math
import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from tuskml.errors import DataError
from tuskml.udas.model_fields import MODEL_FIELDS
from tuskml.version import VERSION

FORMAT = "tuskml model"
FORMAT_VERSION = 1
EXPECTED = "expected the text that Model.to_json wrote"
ODD = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def write(fields: Mapping[str, Any]) -> str:
    """A model's fields as JSON text."""
    content = {name: encode_field(name, value) for name, value in fields.items()}
    try:
        checksum = digest(content)
    except (TypeError, ValueError) as error:
        raise DataError(f"the model's options are no JSON ({error})") from error
    whole = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "written_by": f"tuskml {VERSION}",
        "checksum": checksum,
        "model": content,
    }
    return json.dumps(whole, allow_nan=False)


def read(text: str | bytes) -> dict[str, Any]:
    """The fields again. Raises DataError for all that `write` did not write."""
    content = OLDER | verify(parse_json(text))
    missing = [name for name in KINDS if name not in content]
    unknown = [name for name in content if name not in KINDS]
    if missing or unknown:
        wrong = f"lacks '{missing[0]}'" if missing else f"has an unknown field '{unknown[0]}'"
        raise DataError(f"the model {wrong}, {EXPECTED}")
    return {name: decode_field(name, content[name]) for name in KINDS}


def save(text: str, path: Path) -> None:
    """Writes a file, which appears when it is complete. Raises DataError if it cannot be written.

    What is there and no plain file, such as /dev/stdout or a pipe, is written to.
    """
    partial = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        with partial.open("x", encoding="utf-8") as file:  # not through a link that lies there
            file.write(text)
            file.flush()
            os.fsync(file.fileno())  # before it replaces a complete one
        os.replace(partial, path)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def load(path: Path) -> bytes:
    """Reads a file. Raises DataError if it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist, expected a file that Model.save wrote") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error


def parse_json(text: str | bytes) -> Any:
    """The JSON value."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is no JSON")

    if not isinstance(text, str | bytes):
        raise DataError(f"the model is of type {type(text).__qualname__}, {EXPECTED}")
    try:
        return json.loads(text, parse_constant=refuse, parse_float=finite)
    except (ValueError, RecursionError) as error:
        raise DataError(f"the model is not valid JSON ({error}), {EXPECTED}") from error


def finite(digits: str) -> float:
    """A JSON number. ValueError beyond every double, which Python would read as infinite."""
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits} is larger than every double")
    return value


def verify(whole: Any) -> dict[str, Any]:
    """The content, if it is of a version that this module reads, and whole."""
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise DataError(f"the text is JSON but no model, {EXPECTED}")
    version = whole.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise DataError(f"the model's version is {version!r}, {EXPECTED}")
    if version > FORMAT_VERSION:
        raise DataError(
            f"the model has format version {version}, written by {whole.get('written_by')}, and "
            f"this tuskml {VERSION} reads version {FORMAT_VERSION}: install a newer tuskml"
        )
    content = whole.get("model")
    if not isinstance(content, dict):
        raise DataError(f"the model has no fields, {EXPECTED}")
    found, given = digest(content), whole.get("checksum")
    if found != given:
        raise DataError(
            f"the model is damaged: its content has the checksum {found}, its text names {given}"
        )
    return content


def digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of the content's one canonical text."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


# --- the kinds of fields ---


def text(value: Any) -> bool:
    return isinstance(value, str)


def count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def truth(value: Any) -> bool:
    return isinstance(value, bool)


def number(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, str) and value in ODD)


def settings(value: Any) -> bool:
    return isinstance(value, dict)


def list_of(kind: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(kind, value))


def maybe(kind: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or kind(value)


NUMBERS = tuple(item.name for item in MODEL_FIELDS if item.kind == "NUMBER")
LISTS = tuple(item.name for item in MODEL_FIELDS if item.kind == "NUMBERS")
OF_KIND: dict[str, Callable[[Any], bool]] = {
    "TEXT": text,
    "TEXTS": list_of(text),
    "NUMBER": number,
    "NUMBERS": maybe(list_of(number)),
    "COUNT": count,
    "TRUTH": truth,
}
KINDS: dict[str, Callable[[Any], bool]] = {
    item.name: OF_KIND[item.kind] for item in MODEL_FIELDS if item.kind in OF_KIND
} | {
    "std_err": maybe(list_of(maybe(number))),
    "options": settings,
    "store": maybe(text),
    "label": maybe(text),
    "class_names": maybe(list_of(text)),
    "preparation": maybe(text),
    "note": maybe(text),
    "histogram": maybe(text),
    "trials": maybe(settings),
    "intercept": maybe(number),
}
"""Tests of a field's value; the payload is made of the others."""
OLDER: dict[str, Any] = dict.fromkeys(
    ("class_names", "preparation", "trials", "note", "spread", "histogram")
)
"""The values of new fields in a model of an older version."""


def encode_field(name: str, value: Any) -> Any:
    """A field as JSON has it."""
    if name in NUMBERS:
        return as_json(value)
    if name in LISTS and value is not None:
        return [as_json(item) for item in value]
    return list(value) if name == "features" else value


def as_json(value: float | None) -> float | str | None:
    """A number, finite or not."""
    if value is None or math.isfinite(value):
        return None if value is None else float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def decode_field(name: str, value: Any) -> Any:
    """A field as a model has it. Raises DataError if it is of another kind."""
    if not KINDS[name](value):
        raise DataError(f"the model's field '{name}' is not of its kind, {EXPECTED}")
    if name in NUMBERS:
        return of_json(value)
    if name in LISTS and value is not None:
        return [of_json(item) for item in value]
    return tuple(value) if name == "features" else value


def of_json(value: float | str | None) -> float | None:
    """A number, finite or not."""
    return ODD[value] if isinstance(value, str) else value
