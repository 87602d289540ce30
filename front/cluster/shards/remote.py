"""Folders of shards on a file system of fsspec, such as an object store.

Nothing is renamed there, so a folder is complete when it has a manifest: that is written last, and
where shards are replaced it is the first file to go.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tuskml.cluster.shards.manifest import NAME, Manifest, refuse_existing
from tuskml.errors import DataError


def is_remote(path: str) -> bool:
    """Returns whether a path names a file system, as `s3://bucket/rows` does."""
    return "://" in path


class RemoteFolder:
    """One folder, which may be missing. Raises DataError for errors of the storage."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.files = files_of(self.url)

    def refuse_taken(self, replace: bool) -> None:
        """Raises DataError if the folder cannot be made or replaced."""
        names = self.names()
        if names:
            refuse_existing(self.url, NAME in names, replace)

    def names(self) -> list[str]:
        """Lists the names of its files."""
        with self._asking("listed"):
            try:
                return [path.rsplit("/", 1)[-1] for path in self.files.ls(self.url, detail=False)]
            except FileNotFoundError:
                return []

    @contextmanager
    def fill(self) -> Iterator[Path]:
        """A folder of this machine for the shard that is being written. What was there goes."""
        self.clear()
        with TemporaryDirectory(prefix="tuskml-") as here:
            yield Path(here)

    def clear(self) -> None:
        """Removes an earlier manifest, and then its shards."""
        names = self.names()
        with self._asking("written"):
            for name in sorted(names, key=lambda name: name != NAME):
                if name == NAME or name.endswith(".parquet"):
                    self.files.rm_file(f"{self.url}/{name}")

    def take(self, path: Path) -> None:
        """Moves a file of this machine there."""
        with self._asking("written"):
            self.files.put_file(str(path), f"{self.url}/{path.name}")
        path.unlink()

    def complete(self, manifest: Manifest) -> Manifest:
        """Writes the manifest."""
        self.take(manifest.write())
        return manifest.move_to(self.url)

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        """Errors of the storage as a sentence; it has no key and no secret."""
        try:
            yield
        except (DataError, FileNotFoundError):
            raise
        except Exception as error:
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise DataError(f"{self.url} cannot be {what}: {reason}") from error


def files_of(url: str) -> Any:
    """The file system of fsspec for a path. Raises DataError if there is none."""
    name = url.split("://", 1)[0]
    try:
        import fsspec

        return fsspec.filesystem(name)
    except (ImportError, ValueError) as error:
        raise DataError(
            f"into is {url!r}, on the file system '{name}', which this process cannot open: "
            f"install fsspec and what it needs, such as tuskml[s3] for s3 "
            f"({' '.join(str(error).split())})"
        ) from error
