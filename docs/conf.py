"""How Sphinx builds the manual: Markdown in, HTML out, nothing from the network. `make docs`."""

import tomllib
from pathlib import Path

from pygments.lexers.sql import PostgresLexer
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent

project = "tuskml"
author = "the authors of tuskml"
release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

extensions = ["myst_nb"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # tests run what the manual shows
exclude_patterns = ["**/.ipynb_checkpoints"]
nitpicky = True
show_warning_types = True
suppress_warnings = [
    "misc.highlighting_failure",  # Pygments' SQL has no structs; tests run the blocks
]

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_show_copyright = False
html_title = f"tuskml {release}"
html_copy_source = False
html_show_sphinx = False


def setup(app: Sphinx) -> None:
    """Blocks in ```pgsql are PostgreSQL's."""
    app.add_lexer("pgsql", PostgresLexer)
