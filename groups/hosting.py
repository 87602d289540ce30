"""The server that trains for its roles, if this process is of one: known before the store's room,
which takes a while to import, is needed."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuskml.kvstore.access import Host

host: "Host | None" = None
