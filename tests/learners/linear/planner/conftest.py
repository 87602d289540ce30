import pytest

from tuskml.learners.machine import constants


@pytest.fixture(autouse=True)
def no_calibration(tmp_path, monkeypatch):
    """The constants are the shipped ones, whatever this host has."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    forget = constants.of_host.cache_clear
    forget()
    yield
    forget()
