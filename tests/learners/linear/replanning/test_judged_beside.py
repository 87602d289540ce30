"""Plans are judged in a thread beside the training, which goes on meanwhile (Mahajan 2021, 2.3.3).

What threads gain is made up, as in test_replanned_trainings.py. How far the training and the judge
are is told by events, never by time.
"""

import threading

import pytest

from tuskml.errors import Interrupted
from tuskml.learners.linear.planner import replanning
from tuskml.learners.linear.planner.cost import Costs
from tuskml.schedule import budget, shares

pytestmark = pytest.mark.native

PATIENCE = 60.0
"""Seconds that a test waits for an event before it fails."""


@pytest.fixture
def rows(correlated, monkeypatch):
    """With two threads lbfgs takes least, and with one newton does."""
    monkeypatch.setattr(budget, "processors", lambda: 2)
    monkeypatch.setattr(replanning, "SHORT", 0.0)
    monkeypatch.setattr(replanning, "LEAST_LEFT", 0.0)

    def speedup(self, kind, alone_in_group=False):
        alone = self.question.threads == 1
        return (10.0 if alone else 0.02) if kind == "curvature" else (0.02 if alone else 1.0)

    monkeypatch.setattr(Costs, "speedup", speedup)
    return correlated


class Judge:
    """The thread that judges, which waits until it may; `began`: it has a question, `judged`: it
    has answered; iterations: looks of the training meanwhile; share: of the training."""

    def __init__(self, monkeypatch):
        self.began, self.may, self.judged = (threading.Event() for _ in range(3))
        self.share, self.iterations, self.threads = 2, 0, []
        usual_judge, usual_look = replanning.judge, replanning.Replanning.look

        def judge(*given):
            self.threads.append(threading.current_thread().name)
            self.began.set()
            assert self.may.wait(PATIENCE)
            try:
                return usual_judge(*given)
            finally:
                self.judged.set()

        def look(seen, state):
            self.iterations += 1
            self.at(seen, self.iterations)
            usual_look(seen, state)

        monkeypatch.setattr(replanning, "judge", judge)
        monkeypatch.setattr(replanning.Replanning, "look", look)
        monkeypatch.setattr(shares, "now", lambda wanted: self.share)

    def at(self, seen, iteration):
        """What happens before the training's look in an iteration, from 1 on."""

    def answers(self, seen):
        """Lets the thread answer, and waits until its answer may be taken."""
        self.may.set()
        assert self.judged.wait(PATIENCE)
        seen.beside.future.exception(PATIENCE)


@pytest.fixture
def judge(monkeypatch):
    return Judge(monkeypatch)


def trained(con):
    text = "SELECT train_model('logistic', y, x, '{\"epsilon\": 1e-9}') FROM rows"
    return con.execute(text).fetchone()[0]


def no_thread_is_left():
    return not [one for one in threading.enumerate() if one.name.startswith(replanning.NAME)]


def test_the_training_goes_on_while_plans_are_judged(rows, judge):
    def at(seen, iteration):
        if iteration == 2:
            judge.share = 1
        if iteration == 5:
            assert judge.began.wait(PATIENCE)
            judge.answers(seen)

    judge.at = at
    model = trained(rows)
    assert "lbfgs -> newton at iteration 4: share 2 -> 1" in model["plan"]  # 2 asked, 5 took up
    assert model["converged"]
    assert judge.threads[0].startswith(replanning.NAME)
    assert no_thread_is_left()


def test_an_answer_to_an_older_question_is_dropped(rows, judge):
    def at(seen, iteration):
        if iteration == 2:
            judge.share = 1
        if iteration == 3:
            assert judge.began.wait(PATIENCE)
            judge.answers(seen)
            judge.share = 2

    judge.at = at
    model = trained(rows)
    assert " -> " not in model["plan"]
    assert model["converged"]
    assert len(judge.threads) == 1
    assert no_thread_is_left()


def test_an_answer_after_the_end_is_dropped(rows, judge, monkeypatch):
    usual = replanning.Beside.end

    def end(self):
        judge.may.set()
        usual(self)

    monkeypatch.setattr(replanning.Beside, "end", end)

    def at(seen, iteration):
        judge.share = 1 if iteration == 2 else judge.share

    judge.at = at
    model = trained(rows)
    assert " -> " not in model["plan"]
    assert model["converged"]
    assert judge.threads
    assert no_thread_is_left()


def test_a_cancelled_training_ends_its_thread(rows, judge):
    def at(seen, iteration):
        if iteration == 2:
            judge.share = 1
        if iteration == 3:
            assert judge.began.wait(PATIENCE)
            judge.may.set()
            raise Interrupted("cancelled")

    judge.at = at
    with pytest.raises(Exception, match=r"(?i)interrupt|cancel"):
        trained(rows)
    assert no_thread_is_left()
    judge.at = lambda seen, iteration: None
    assert trained(rows)["converged"]


def test_without_a_thread_the_plan_stays(rows, judge, monkeypatch):
    def refuse(*given):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(replanning.QuietThreads, "submit", refuse)

    def at(seen, iteration):
        judge.share = 1 if iteration == 2 else judge.share

    judge.at = at
    model = trained(rows)
    assert " -> " not in model["plan"]
    assert model["converged"]
    assert not judge.threads


def test_an_error_of_the_judge_is_an_error_of_the_training(rows, judge, monkeypatch):
    def fails(*given):
        raise RuntimeError("no estimate")

    monkeypatch.setattr(replanning, "judge", fails)

    def at(seen, iteration):
        judge.share = 1 if iteration == 2 else judge.share
        if iteration == 3:
            seen.beside.future.exception(PATIENCE)

    judge.at = at
    with pytest.raises(Exception, match="no estimate"):
        trained(rows)
    assert no_thread_is_left()
