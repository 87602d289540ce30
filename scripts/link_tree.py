"""Writes `.links/tuskml`, the package as a tree of links, for tools that do not execute Python.

The files of `front/` stand at the top, every other folder beneath. Run it again after adding a
file to `front/` or a folder to `FOLDERS`; all else shows at once.
"""

import ast
import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "tuskml"


def read_folders(setup_file: Path = ROOT / "setup.py") -> dict[str, str]:
    """The literal `FOLDERS` of setup.py: folder to import name."""
    for node in ast.parse(setup_file.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FOLDERS":
            folders: dict[str, str] = ast.literal_eval(node.value)
            return folders
    raise LookupError(f"{setup_file} assigns no FOLDERS")


def links() -> dict[Path, Path]:
    """Each link, relative to `.links`, and its target file or folder."""
    found: dict[Path, Path] = {}
    for folder, name in read_folders().items():
        place = Path(*name.split("."))
        if name == PACKAGE:
            entries = (ROOT / folder).iterdir()
            found |= {
                place / entry.name: entry for entry in entries if entry.name != "__pycache__"
            }
        elif place in found:
            raise FileExistsError(f"{found[place]} hides the folder {folder}")
        else:
            found[place] = ROOT / folder
    return found


def main() -> None:
    """Replaces the tree."""
    tree = ROOT / ".links"
    shutil.rmtree(tree, ignore_errors=True)
    for place, target in links().items():
        link = tree / place
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(target, link.parent))


if __name__ == "__main__":
    main()
