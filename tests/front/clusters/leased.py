"""Trainings with leases, and questions of tests to the arbiter of leases."""

import json
import time
from collections.abc import Callable
from typing import Any

import sharded

import tuskml
from tuskml.groups.execution import leases


def train(source: str, **given: Any) -> tuskml.Models:
    """On the cluster at hand, with a connection of its own."""
    with tuskml.connect() as con:
        return tuskml.train(
            con, "logistic", source=source, executor="ray", **sharded.GIVEN | given
        )


def arbiter() -> Any:
    """The cluster's, once there is one."""
    import ray

    return until(lambda: named(ray))


def named(ray: Any) -> Any:
    try:
        return ray.get_actor(leases.NAME, namespace=leases.SPACE)
    except ValueError:
        return None


def until(find: Callable[[], Any], seconds: float = 60.0) -> Any:
    """What is found at last."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = find()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def state() -> dict[str, Any]:
    """What the arbiter says."""
    import ray

    return json.loads(ray.get(arbiter().state.remote()))


def state_of_another(pid: int) -> dict[str, Any] | None:
    """What an arbiter says that is not this process; None where there is none yet."""
    import ray

    found = named(ray)
    if found is None:
        return None
    try:
        now = json.loads(ray.get(found.state.remote(), timeout=1.0))
    except (ray.exceptions.RayError, ray.exceptions.GetTimeoutError):
        return None
    return now if now["pid"] != pid else None
