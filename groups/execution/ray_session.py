"""The connection of this process to a Ray cluster, and the cluster's resources."""

import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from tuskml.errors import ClusterError, ExtensionError
from tuskml.groups.execution import executor
from tuskml.groups.execution.executor import Unit, import_package, log

OLDEST = (2, 50)
REACH_SECONDS = 5.0
QUIET = {"log_to_driver": False, "logging_level": "ERROR"}
_ending: list[threading.Thread] = []
"""The thread in which the last cluster that was started here ends."""
INSTALL = "pip install 'tuskml[ray]'"


def import_ray() -> Any:
    """The package ray. Raises ExtensionError if it is missing or too old."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else a warning
    ray = import_package("ray", "ray", INSTALL)
    import_package("pyarrow", "ray", INSTALL)
    found = tuple(map(int, re.findall(r"\d+", ray.__version__)[:2]))
    if found < OLDEST:
        least = ".".join(map(str, OLDEST))
        raise ExtensionError(
            f"ray is {ray.__version__}, expected {least} or later: pip install --upgrade ray"
        )
    return ray


@contextmanager
def connect(address: str | None) -> Iterator[Any]:
    """Yields Ray, connected. At the end, what was connected or started here is disconnected or
    stopped.

    address: None is the cluster that the process is connected to, else the one of RAY_ADDRESS,
    else this user's own of this machine, else a new one on this machine alone.
    """
    ray = import_ray()
    for one in _ending:
        one.join()
    if ray.is_initialized():
        refuse_other(ray, address)
        yield ray
        return
    started = False
    try:
        started = begin(ray, address)
        yield ray
    finally:
        if started:
            end_behind(ray)
        else:
            ray.shutdown()


def end_behind(ray: Any) -> None:
    """Disconnects from a cluster that was started here. Its processes end in a thread: they take a
    second, and Ray refuses connections before that.
    """
    _ending[:] = [threading.Thread(target=ray.shutdown, name="tuskml-ray-end")]
    _ending[0].start()
    while _ending[0].is_alive() and ray.is_initialized():
        _ending[0].join(0.01)


def begin(ray: Any, address: str | None) -> bool:
    """Connects to a cluster, or starts one; whether it has started one. Raises ClusterError if
    none answers.
    """
    try:
        if address is not None:
            refuse_unreachable(address)
            ray.init(address=address, **QUIET)
            return False
        if os.environ.get("RAY_ADDRESS"):
            ray.init(address="auto", **QUIET)
            return False
        own = own_cluster()
        if own is not None:
            ray.init(address=own, **QUIET)
            return False
        ray.init(address="local", include_dashboard=False, **QUIET)
        return True
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        where = address or os.environ.get("RAY_ADDRESS") or "this machine"
        why = " ".join(str(error).split())[:300]
        raise ClusterError(f"the Ray cluster at {where} cannot be reached: {why}") from error


def own_cluster() -> str | None:
    """The address of the cluster that this user has started last on this machine by `ray
    start`, if it answers. Ray itself would also use another user's, or one that ends with the
    program that started it.
    """
    file = Path(os.environ.get("RAY_TMPDIR") or gettempdir(), "ray", "ray_current_cluster")
    try:
        address, owner = file.read_text().strip(), file.stat().st_uid
        if not re.fullmatch(r"[\w.-]+:\d+", address):
            return None
        refuse_unreachable(address)
    except (OSError, ValueError, ClusterError):  # it does not exist, or has ended
        return None
    if owner == os.geteuid():
        log.info("joined the Ray cluster at %s", address)
        return address
    log.warning(
        "the Ray cluster at %s is another user's, so Ray is started for this training alone: "
        "executor='%s' trains on that cluster",
        address,
        address,
    )
    return None


def refuse_unreachable(address: str) -> None:
    """ClusterError at once where nothing listens; Ray itself would try for a minute."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), REACH_SECONDS).close()
    except OSError as error:
        raise ClusterError(
            f"the Ray cluster at {address} cannot be reached: {error.strerror or error}; `ray "
            "status` on its head node shows whether it runs"
        ) from error


def refuse_other(ray: Any, address: str | None) -> None:
    """Raises ClusterError if the process is connected to another cluster than the address."""
    here = ray.get_runtime_context().gcs_address
    if address is not None and not address.startswith("ray://") and address != here:
        raise ClusterError(
            f"executor is {address!r}, but this process is connected to the Ray cluster at "
            f"{here}: give executor='ray', or call ray.shutdown() before"
        )


def processors(ray: Any) -> int:
    """Logical processors of the cluster. Raises ClusterError if it has none."""
    found = int(ray.cluster_resources().get("CPU", 0))
    if found < 1:
        raise ClusterError(
            "the Ray cluster has no CPU, expected a node that was started with num_cpus of at "
            "least 1"
        )
    return found


def no_processor(ray: Any, seconds: float) -> str:
    """Makes the error for a cluster where no worker started in time."""
    total = int(ray.cluster_resources().get("CPU", 0))
    free = int(ray.available_resources().get("CPU", 0))
    return (
        f"no worker has started on the Ray cluster within {seconds:g} s, {free} of its {total} "
        "CPUs are free: end what holds them, add a node, or raise TUSKML_CLUSTER_TIMEOUT"
    )


def memory_per_processor(ray: Any) -> int:
    """Bytes that a worker may use for rows: the least share of a node's memory per processor."""
    shares = [
        node["Resources"]["memory"] / node["Resources"]["CPU"]
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU") and node["Resources"].get("memory")
    ]
    return int(min(shares, default=0))


SECONDS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""Boundaries of the histogram of how long units took."""


@contextmanager
def metrics() -> Iterator[None]:
    """Reports each unit that ends here to Ray's metrics, which its dashboard and Prometheus show.

    `tuskml_units` and `tuskml_rows` count units and their rows, `tuskml_unit_seconds` is their
    duration, all by `outcome`: trained, failed, lost, given up or stopped.
    """
    from ray.util.metrics import Counter, Histogram

    keys = ("outcome",)
    units = Counter("tuskml_units", "Units of groups that workers have ended with", keys)
    rows = Counter("tuskml_rows", "Rows of these units", keys)
    took = Histogram("tuskml_unit_seconds", "Seconds of these units", list(SECONDS), keys)

    def hear(unit: Unit, how: str, seconds: float) -> None:
        tags = {"outcome": how}
        units.inc(len(unit.each), tags)
        if unit.size > 0:  # Ray counts nothing but increases
            rows.inc(unit.size, tags)
        took.observe(seconds, tags)

    executor.hearers.append(hear)
    try:
        yield
    finally:
        executor.hearers.remove(hear)
