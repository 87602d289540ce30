"""Which executor a caller asks for."""

import re

from tuskml.errors import OptionError, nearest
from tuskml.groups.execution.executor import Executor
from tuskml.groups.execution.packages import imported

ADDRESS = re.compile(r"(ray://)?[^\s:/]+:\d+")
NAMES = ("ray", "threads")


def executor_of(given: object) -> Executor:
    """Of the argument `executor`: "ray", "threads", or the address of a Ray cluster.

    OptionError for anything else. Ray is imported here and nowhere before.
    """
    if given == "threads":
        from tuskml.groups.execution.threads import Threads

        imported("pyarrow", "threads", "pip install pyarrow")
        return Threads()
    if isinstance(given, str) and (given == "ray" or ADDRESS.fullmatch(given)):
        from tuskml.groups.execution.ray_cluster import RayCluster

        return RayCluster(None if given == "ray" else given)
    if given is None:
        raise OptionError(
            "finished is given without executor, expected executor too, such as 'ray'"
        )
    near = nearest(given, NAMES) if isinstance(given, str) else ""
    raise OptionError(
        f"executor is {given!r}, expected 'ray', 'threads' or the address of a Ray cluster such "
        f"as '10.0.0.1:6379'{near}"
    )
