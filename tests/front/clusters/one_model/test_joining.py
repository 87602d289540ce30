"""Which Ray cluster a training joins that names none."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tuskml.groups.execution import ray_session


class Recorded:
    """What Ray is asked for."""

    def __init__(self) -> None:
        self.joined: list[str] = []

    def init(self, address: str, **_: Any) -> None:
        self.joined.append(address)


@pytest.fixture
def running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, socket.socket]]:
    """The address of a cluster that `ray start` has noted, and where it listens."""
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        (tmp_path / "ray").mkdir()
        (tmp_path / "ray" / "ray_current_cluster").write_text(address)
        yield address, server


class Started:
    """A Ray of this machine, whose processes end when they may."""

    def __init__(self) -> None:
        self.connected, self.may_end, self.ends = False, threading.Event(), 0

    def init(self, **_: Any) -> None:
        self.connected = True

    def is_initialized(self) -> bool:
        return self.connected

    def shutdown(self) -> None:
        self.connected = False
        self.may_end.wait()
        self.ends += 1


def test_a_cluster_that_was_started_here_ends_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller is disconnected, and does not wait for the processes; the next one does."""
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    ray = Started()
    monkeypatch.setattr(ray_session, "import_ray", lambda: ray)
    with ray_session.connect(None):
        assert ray.is_initialized()
    assert (ray.is_initialized(), ray.ends) == (False, 0)
    threading.Timer(0.05, ray.may_end.set).start()
    with ray_session.connect(None):
        assert ray.ends == 1
    for thread in ray_session._ending:
        thread.join()
    assert ray.ends == 2


def joined() -> str:
    """The address that Ray is given, "local" for a new cluster."""
    ray = Recorded()
    ray_session.begin(ray, None)
    (address,) = ray.joined
    return address


def test_ones_own_cluster_is_joined(running: tuple[str, socket.socket]) -> None:
    assert joined() == running[0]


def test_one_that_has_ended_is_not(running: tuple[str, socket.socket]) -> None:
    running[1].close()
    assert joined() == "local"


def test_one_of_another_user_is_named(
    running: tuple[str, socket.socket],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert joined() == "local"
    assert f"the Ray cluster at {running[0]} is another user's" in caplog.text


@pytest.mark.parametrize("text", ["", "no address", "a:b", "127.0.0.1:1 'x'"])
def test_a_file_without_an_address_names_none(
    running: tuple[str, socket.socket], tmp_path: Path, text: str
) -> None:
    (tmp_path / "ray" / "ray_current_cluster").write_text(text)
    assert joined() == "local"


def test_the_environment_comes_first(
    running: tuple[str, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert joined() == "auto", "Ray reads it"


def test_no_file_is_a_new_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert joined() == "local"
