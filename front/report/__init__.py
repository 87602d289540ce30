"""One self-contained HTML page of a training: `tuskml report`.

`groups.py` reads models, `charts.py` draws SVG, `sections.py` writes the sections on all models
and `group_table.py` the table of groups, `page.py` combines them with `page.css` and `page.js`.
All text from a database is escaped, and the page's policy runs no other script than its own.
"""

from tuskml.report.groups import Group, group_of
from tuskml.report.page import page

__all__ = ["Group", "group_of", "page"]
