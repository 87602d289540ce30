"""The manifest of a folder of shards: `manifest.json`.

It lists the shards with their rows, bytes, checksums and statistics, and the groups with their
rows and the shards that hold them. It is written last, so a folder with a manifest is complete.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tuskml.errors import DataError

NAME = "manifest.json"
FORMAT = 1
CHUNK = 1 << 20


@dataclass(frozen=True)
class ShardFile:
    """One file. sha256: of its bytes, as hexadecimal digits; statistics: by column with
    numbers {"min", "max", "nulls"}, as in Parquet's row groups.
    """

    file: str
    rows: int
    bytes: int
    sha256: str
    statistics: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class GroupRows:
    """One group. key: DuckDB's text of each key's value, None for NULL; bytes: its share of
    its shards' bytes, by rows; shards: indices in the list of shards.
    """

    key: tuple[str | None, ...]
    rows: int
    bytes: int
    shards: tuple[int, ...]


@dataclass(frozen=True)
class Manifest:
    """The result of `tuskml.split`. Shards are sorted by the keys, NULL last.

    folder: that of the shards, a text if it is not on this machine; group_by, key_types: names and
    DuckDB's types of the keys, which are columns of the shards.
    """

    folder: Path | str
    group_by: tuple[str, ...]
    key_types: tuple[str, ...]
    shards: tuple[ShardFile, ...]
    groups: tuple[GroupRows, ...]
    written_by: str = ""

    @property
    def rows(self) -> int:
        """Rows of all shards."""
        return sum(shard.rows for shard in self.shards)

    @property
    def bytes(self) -> int:
        """Bytes of all shards."""
        return sum(shard.bytes for shard in self.shards)

    @property
    def source(self) -> str:
        """The shards as the `source` of a training."""
        return f"{self.folder}/*.parquet"

    def move_to(self, folder: Path | str) -> "Manifest":
        """Returns the manifest with another name of the folder."""
        return replace(self, folder=folder)

    def write(self) -> Path:
        """Writes `manifest.json` into the folder, which is on this machine."""
        content = asdict(self) | {"format": FORMAT, "rows": self.rows, "bytes": self.bytes}
        del content["folder"]
        text = json.dumps({"sha256": digest_of(content)} | content, ensure_ascii=False, indent=1)
        path = Path(self.folder) / NAME
        path.write_text(text, encoding="utf-8")
        return path


def refuse_existing(folder: str, has_manifest: bool, replace: bool) -> None:
    """Raises DataError if a folder that is there must not become one of new shards."""
    if not has_manifest:
        raise DataError(
            f"into is {folder!r}, which exists and is not a folder of shards: expected a new "
            "folder"
        )
    if not replace:
        raise DataError(
            f"the folder {folder!r} already exists: give into another name, or replace=True "
            "(--replace on the command line)"
        )


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a folder; None where it has none. Raises DataError for one that is
    damaged.
    """
    path = folder / NAME
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    return parse_manifest(folder, text)


def parse_manifest(folder: Path | str, text: str) -> Manifest:
    """The manifest of a folder by its text. Raises DataError for one that is damaged."""
    path = f"{folder}/{NAME}"
    content = verify(path, text)
    if content.get("format") != FORMAT:
        raise DataError(
            f"{path} has format {content.get('format')}, and this tuskml reads format {FORMAT}: "
            "write the shards again with tuskml split"
        )
    groups = (
        GroupRows(**g | {"key": tuple(g["key"]), "shards": tuple(g["shards"])})
        for g in content["groups"]
    )
    return Manifest(
        folder,
        tuple(content["group_by"]),
        tuple(content["key_types"]),
        tuple(ShardFile(**shard) for shard in content["shards"]),
        tuple(groups),
        content["written_by"],
    )


def verify(path: str, text: str) -> dict[str, Any]:
    """The content, verified by its checksum. Raises DataError if it was changed."""
    try:
        content: dict[str, Any] = json.loads(text)
        if content.pop("sha256") != digest_of(content):
            raise ValueError
        return content
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError(
            f"{path} is damaged: restore it, or write the shards again with tuskml split"
        ) from None


def digest_of(content: dict[str, Any]) -> str:
    """SHA-256 of a manifest's content in its one form."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def checksum(path: Path) -> str:
    """SHA-256 of a file as hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
