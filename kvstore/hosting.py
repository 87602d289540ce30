"""The server that trains for its roles, if this process belongs to one.

A module of its own, since it is set before the package of stores, which takes a while to import,
is needed.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuskml.kvstore.access import Host

host: "Host | None" = None
