"""One self-contained HTML page of a training: `tuskml report`.

`groups.py` reads models, `charts.py` draws SVG, `sections.py` writes what all models say together
and `one_by_one.py` the table of groups, `page.py` puts them together with `page.css` and
`page.js`. All that comes from a database is escaped, and the page's policy runs no other script
than its own.
"""

from tuskml.report.groups import Group, group_of
from tuskml.report.page import page

__all__ = ["Group", "group_of", "page"]
