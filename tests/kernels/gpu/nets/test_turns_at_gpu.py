"""Two trainings with device 'gpu' take turns."""

import threading

import numpy as np
import pytest
from fitting import put

import tuskml
from tuskml.learners.nets import training as nets
from tuskml.schedule import devices, shares

rng = np.random.default_rng(3)
X = rng.normal(size=(400, 5)).astype("f4")
TASKS = {
    "logistic": '{"device": "gpu", "algorithm": "lbfgs", "epsilon": 0, "max_iter": 12}',
    "mlp": '{"device": "gpu", "max_iter": 6}',
}


class Inside:
    """Who computes on the device: the threads by the order in which they did.

    The first one goes on when the other training waits for its turn, or computes beside it.
    """

    def __init__(self):
        self.order, self.other = [], threading.Event()

    def note(self):
        self.order.append(threading.get_ident())
        if len(set(self.order)) > 1:
            self.other.set()
        if len(self.order) == 1:
            assert self.other.wait(60)


@pytest.fixture
def inside(standing_in, monkeypatch):
    """What the stand-in was asked for by linear trainings, and by nets."""
    found = Inside()
    launch, train = type(standing_in).launch, nets.train_on_device

    def launched(self, *given):
        found.note()
        launch(self, *given)

    def trained(*given):
        found.note()
        made = train(*given)
        found.note()
        return made

    monkeypatch.setattr(type(standing_in), "launch", launched)
    monkeypatch.setattr(nets, "train_on_device", trained)
    return found


@pytest.mark.sample(1)
@pytest.mark.parametrize("task", TASKS)
def test_two_trainings_are_not_mixed(inside, tmp_path, monkeypatch, task):
    monkeypatch.setenv(shares.SETTING, str(tmp_path / "table"))
    monkeypatch.setattr(devices, "TURN", 60.0)
    failed = []

    def train(con):
        try:
            con.execute(f"SELECT train_model('{task}', y, x, '{TASKS[task]}') FROM t").fetchall()
        except Exception as error:
            failed.append(error)

    with tuskml.connect() as one, tuskml.connect() as two:
        threads = []
        for con in (one, two):
            put(con, X, (X[:, 0] > 0).astype(float), storage="FLOAT")
            threads.append(threading.Thread(target=train, args=(con,)))
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            if any(found.device and not found.has_device for found in shares.activity()):
                inside.other.set()
            threads[0].join(0.01)
    assert not failed
    changes = [a for a, b in zip(inside.order, inside.order[1:], strict=False) if a != b]
    assert len(set(inside.order)) == 2
    assert len(changes) == 1, "the second one began when the first one had ended"
