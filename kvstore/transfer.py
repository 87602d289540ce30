"""Models out of a root and into one, as files that other programs read; memory stays bounded.

npz    NumPy arrays without pickle: ids (int64, rising), weights, dimension, metadata (JSON text as
       uint8). `numpy.load(path)` reads it.
jsonl  first line an object with format, dtype, dimension, count and metadata; then a line
       [id, weight] for each weight that is not 0; last line {"end": count}.
"""

import json
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from tuskml.errors import StoreError
from tuskml.kvstore.access import Reference
from tuskml.kvstore.files import Record, parse, reporting, sync_directory, temporary
from tuskml.kvstore.native import Array, Ids, Weights, model_dtype
from tuskml.kvstore.root import StoreRoot
from tuskml.kvstore.sealed import SealedModel
from tuskml.kvstore.versions import Version

FORMAT = "tuskml/weights/1"
CHUNK = 1 << 18
T = TypeVar("T")


def export_model(root: StoreRoot, reference: "str | Reference", path: Path) -> Version:
    """Writes a model to PATH.npz or PATH.jsonl atomically."""
    write = _by_suffix(path, {".npz": _write_npz, ".jsonl": _write_lines})
    version = root.version(reference)
    new = temporary(path)
    with root.open(version.reference) as model, reporting("exporting"):
        try:
            with open(new, "xb") as file:
                write(file, model)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, path)
            sync_directory(path.parent)
        finally:
            new.unlink(missing_ok=True)
    return version


def import_model(root: StoreRoot, name: str, path: Path) -> Version:
    """Seals a model from a file of `export_model` as the next version of a name."""
    read = _by_suffix(path, {".npz": _import_npz, ".jsonl": _import_lines})
    with reporting("importing"):
        return read(root, name, path)


def _by_suffix(path: Path, known: dict[str, T]) -> T:
    if path.suffix not in known:
        raise StoreError(f"a file of weights ends with {' or '.join(known)}, got {path.name!r}")
    return known[path.suffix]


# --- npz ---


def _write_npz(file: IO[bytes], model: SealedModel) -> None:
    text = np.frombuffer(json.dumps(model.metadata).encode(), np.uint8)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        ids = (part for part, _ in model.items())
        _write_array(archive, "ids", np.dtype(np.int64), model.nonzero, ids)
        weights = (part for _, part in model.items())
        _write_array(archive, "weights", model.dtype, model.nonzero, weights)
        _write_array(archive, "metadata", text.dtype, len(text), iter([text]))
        dimension = np.array([model.dimension], np.int64)
        _write_array(archive, "dimension", dimension.dtype, 1, iter([dimension]))


def _write_array(
    archive: zipfile.ZipFile, name: str, dtype: "np.dtype[Any]", n: int, parts: Iterator[Array]
) -> None:
    header = {"descr": dtype.str, "fortran_order": False, "shape": (n,)}
    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts:
            file.write(np.ascontiguousarray(part).data)


def _import_npz(root: StoreRoot, name: str, path: Path) -> Version:
    try:
        with zipfile.ZipFile(path) as archive:
            dimension = int(_whole(archive, "dimension", 1)[0])
            metadata = parse(_whole(archive, "metadata", 1 << 24).tobytes(), path)
            with archive.open("ids.npy") as first, archive.open("weights.npy") as second:
                n, _ = _array_header(first, np.dtype(np.int64))
                count, dtype = _array_header(second, None)
                if n != count:
                    raise StoreError(f"{path} has {n} ids and {count} weights, not equal")
                pairs = _read_pairs(first, second, n, dtype)
                return root.publish_pairs(name, pairs, dtype, dimension, metadata)
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
        raise StoreError(f"{path} is no npz file of weights: {error}") from error


def _array_header(
    file: IO[bytes], expected: "np.dtype[Any] | None"
) -> tuple[int, "np.dtype[Any]"]:
    """Reads length and dtype of an array of one dimension."""
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError(f"arrays have format {version}, expected (1, 0)")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if len(shape) != 1 or dtype.hasobject or (expected is not None and dtype != expected):
        raise ValueError(f"an array of shape {shape} and {dtype} is not expected")
    return shape[0], dtype


def _whole(archive: zipfile.ZipFile, name: str, most: int) -> Array:
    with archive.open(f"{name}.npy") as file:
        n, dtype = _array_header(file, None)
        if n > most or not n:
            raise ValueError(f"{name} has {n} items")
        return np.frombuffer(file.read(n * dtype.itemsize), dtype)


def _read_pairs(
    first: IO[bytes], second: IO[bytes], n: int, dtype: "np.dtype[Any]"
) -> Iterator[tuple[Ids, Weights]]:
    model_dtype(dtype)
    for start in range(0, n, CHUNK):
        m = min(CHUNK, n - start)
        ids, weights = first.read(m * 8), second.read(m * dtype.itemsize)
        yield np.frombuffer(ids, np.int64, m), np.frombuffer(weights, dtype, m)
    # read to the end, where the archive's checksums are verified
    if first.read(1) or second.read(1):
        raise ValueError("an array is longer than it says")


# --- JSON lines ---


def _write_lines(file: IO[bytes], model: SealedModel) -> None:
    head = {
        "format": FORMAT,
        "dtype": model.dtype.name,
        "dimension": model.dimension,
        "count": model.nonzero,
        "metadata": model.metadata,
    }
    file.write(json.dumps(head).encode() + b"\n")
    for ids, weights in model.items():
        pairs = zip(ids.tolist(), weights.tolist(), strict=True)
        file.write("".join(f"[{i}, {json.dumps(w)}]\n" for i, w in pairs).encode())
    file.write(json.dumps({"end": model.nonzero}).encode() + b"\n")


def _import_lines(root: StoreRoot, name: str, path: Path) -> Version:
    with open(path, "rb") as file:
        head = parse(file.readline(1 << 25), path)
        if head.get("format") != FORMAT:
            raise StoreError(f"{path} has format {head.get('format')!r}, expected {FORMAT!r}")
        try:
            dtype, dimension = model_dtype(head["dtype"]), int(head["dimension"])
            pairs = _parse_lines(file, int(head["count"]), dtype)
            return root.publish_pairs(name, pairs, dtype, dimension, _object(head["metadata"]))
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise StoreError(f"{path} is no file of weights: {error}") from error


def _object(value: object) -> Record:
    if not isinstance(value, dict):
        raise ValueError("metadata is no JSON object")
    return value


def _parse_lines(
    file: IO[bytes], count: int, dtype: "np.dtype[Any]"
) -> Iterator[tuple[Ids, Weights]]:
    parse_line: Callable[[bytes], Any] = json.loads
    left = count
    while left:
        lines = [parse_line(file.readline(1000)) for _ in range(min(left, CHUNK))]
        ids, weights = zip(*lines, strict=True)
        yield np.array(ids, np.int64), np.array(weights, dtype)
        left -= len(lines)
    if parse_line(file.readline(1000)) != {"end": count}:
        raise ValueError("it does not end as it should")
