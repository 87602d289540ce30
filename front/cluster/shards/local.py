"""Folders of shards on this machine."""

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tuskml.cluster.shards.manifest import NAME, Manifest, refuse_existing
from tuskml.errors import DataError


class LocalFolder:
    """One folder, which appears when it is complete."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def refuse_taken(self, replace: bool) -> None:
        """Raises DataError if the folder cannot be made or replaced."""
        folder = self.folder
        if not folder.absolute().parent.is_dir():
            raise DataError(f"into is {str(folder)!r}, in a folder that does not exist")
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return
        refuse_existing(str(folder), (folder / NAME).is_file(), replace)

    @contextmanager
    def fill(self) -> Iterator[Path]:
        """A folder of the same parent, of which nothing stays unless `complete` names it."""
        folder = self.folder
        partial = folder.with_name(f".{folder.name}-{secrets.token_hex(8)}")
        try:
            partial.mkdir()
            yield partial
        except OSError as error:
            raise DataError(f"{folder} cannot be written: {error.strerror or error}") from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def take(self, path: Path) -> None:
        """Accepts a complete shard, which stays where it is."""

    def complete(self, manifest: Manifest) -> Manifest:
        """Writes the manifest, and gives the folder its name; replaces an existing one."""
        partial = manifest.write().parent
        old = partial.with_name(f"{partial.name}-old")
        if self.folder.exists():
            self.folder.rename(old)
        partial.rename(self.folder)
        shutil.rmtree(old, ignore_errors=True)
        return manifest.move_to(self.folder)
