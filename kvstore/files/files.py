"""Files that exist completely or not at all, and records: small files with a kind and a checksum.

A record is, little-endian: 8 bytes "TUSKREC" and the version 1; uint32 CRC-32C of all after it;
uint32 length of a JSON object; the object; an attachment of bytes up to the end.
"""

import errno
import json
import os
import secrets
import shutil
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from tuskml.errors import OF_SYSTEM, StoreError, refused_by_system
from tuskml.kvstore.native import crc32c

MAGIC = b"TUSKREC\x01"
HEAD = struct.Struct("<8sII")
LARGEST_RECORD = 1 << 30
DIRECTORY_MODE, FILE_MODE = 0o700, 0o600
CHUNK = 1 << 22
TEMPORARY = ".new-"
"""How the names of files begin that are not whole yet."""
Record = dict[str, Any]


def failed(doing: str, error: OSError) -> StoreError:
    """What the operating system refused, in one sentence, and its SQLSTATE."""
    where = f" {error.filename}" if error.filename else ""
    found = StoreError(f"{doing}{where} failed: {error.strerror or error}")
    if number := refused_by_system(error):
        found.sqlstate = OF_SYSTEM[number][0]
    return found


@contextmanager
def reporting(doing: str) -> Iterator[None]:
    """Turns the operating system's refusals into StoreErrors."""
    try:
        yield
    except OSError as error:
        raise failed(doing, error) from error


def sync_directory(path: Path) -> None:
    """Names in the directory survive a loss of power from here on."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_directory(path: Path) -> Path:
    """The directory, for its owner only; it may be there, but not as a link."""
    try:
        path.mkdir(mode=DIRECTORY_MODE)
    except FileExistsError:
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise StoreError(f"{path} is not a directory") from None
    else:
        sync_directory(path.parent)
    return path


def remove_tree(path: Path) -> None:
    """Removes a file, or a directory and all below it, whatever others remove at the same time."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, onerror=_unless_gone)
        else:
            path.unlink(missing_ok=True)
    except FileNotFoundError:
        return


def _unless_gone(_: object, __: str, raised: Any) -> None:
    error = raised[1]
    if not isinstance(error, FileNotFoundError):
        raise error


def open_plain(path: Path) -> BinaryIO:
    """A file for reading; not through a link, and nothing but a plain file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise StoreError(f"{path} is missing") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StoreError(f"{path} is a link, which a store does not follow") from None
        raise failed("opening", error) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise StoreError(f"{path} is not a plain file")
    return os.fdopen(handle, "rb")


def temporary(beside: Path) -> Path:
    """A new name in the same directory; those that start like it are nobody's after a crash."""
    return beside.parent / f"{TEMPORARY}{secrets.token_hex(8)}"


def create(path: Path) -> BinaryIO:
    """A file for writing that was not there before, for its owner only."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, FILE_MODE), "wb")


def write_record(path: Path, record: Record, attachment: bytes = b"") -> None:
    """Puts a record in place of what was there: after a crash it is the old one or the new one."""
    text = json.dumps(record, sort_keys=True, allow_nan=False).encode()
    body = struct.pack("<I", len(text)) + text + attachment
    new = temporary(path)
    try:
        with create(new) as file:
            file.write(MAGIC + struct.pack("<I", crc32c(body)) + body)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def read_record(path: Path, kind: str) -> tuple[Record, bytes]:
    """The record and its attachment. StoreError if it is missing, damaged, or of another kind."""
    with open_plain(path) as file:
        if os.fstat(file.fileno()).st_size > LARGEST_RECORD:
            raise StoreError(f"{path} is too large for a record")
        data = file.read()
    if data[:7] != MAGIC[:7]:
        raise StoreError(f"{path} is no record of a store")
    if data[:8] != MAGIC:
        raise StoreError(f"{path} has version {data[7:8].hex() or 'none'}, this tuskml reads 01")
    if len(data) < HEAD.size or crc32c(data[12:]) != HEAD.unpack_from(data)[1]:
        raise StoreError(f"{path} is damaged: its checksum is wrong")
    end = HEAD.size + HEAD.unpack_from(data)[2]
    record = parse(data[HEAD.size : end], path)
    if record.get("kind") != kind:
        raise StoreError(f"{path} is a record of kind {record.get('kind')}, expected {kind}")
    return record, data[end:]


def parse(text: bytes, path: Path) -> Record:
    """A JSON object; StoreError for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise StoreError(f"{path} is damaged: it holds no JSON object")
    return value


def checked_metadata(metadata: "Record | None", limit: int = 1 << 24) -> Record:
    """A copy of a JSON object, as it will be read back; StoreError if it is none."""
    try:
        text = json.dumps(metadata or {}, allow_nan=False)
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"metadata must be a JSON object: {error}") from None
    if not isinstance(value, dict) or len(text) > limit:
        raise StoreError(f"metadata must be a JSON object of at most {limit} bytes of text")
    return value


def file_crc(path: Path, sync: bool = False) -> tuple[int, int]:
    """CRC-32C and size of a file, after putting it on the disk if `sync`."""
    crc = size = 0
    with open_plain(path) as file:
        if sync:
            os.fsync(file.fileno())
        while data := file.read(CHUNK):
            crc, size = crc32c(data, crc), size + len(data)
    return crc, size


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files below a directory, linked ones once."""
    if path.is_symlink() or not path.is_dir():
        try:
            return path.lstat().st_size
        except FileNotFoundError:
            return 0
    seen = {}
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                status = os.lstat(os.path.join(folder, name))
            except FileNotFoundError:  # a running store removes files as it likes
                continue
            seen[status.st_dev, status.st_ino] = status.st_size
    return sum(seen.values())
