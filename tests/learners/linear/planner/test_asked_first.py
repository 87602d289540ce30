"""What cannot be chosen, or does not fit into memory, is refused before it is timed."""

import pytest

from tuskml.learners.linear.planner import trials
from tuskml.learners.linear.tasks import LINEAR

LABELS = {"classifies": "i % 3 = 0", "numbers": "1 + i % 7"}
DENSE = "list_transform(range({width}), lambda k: sin(i * (k + 1)))"


def label_of(task):
    return LABELS["classifies" if LINEAR[task].classifies else "numbers"]


@pytest.mark.sample(4)
@pytest.mark.parametrize("task", sorted(LINEAR))
def test_a_task_trains_on_thousands_of_features(new_con, task, tmp_path):
    """Newton's curvature of 6,000 would be 144 MB for each of its copies."""
    new_con.execute("SELECT tuskml_set_memory(?, ?)", [64 << 20, str(tmp_path)]).fetchall()
    query = (
        f"SELECT train_model('{task}', {label_of(task)}, {DENSE.format(width=6000)}, "
        "'{\"max_iter\": 20}') FROM range(40) t(i)"
    )
    ((model,),) = new_con.execute(query).fetchall()
    assert len(model["coef"]) == 6000


def test_a_pass_is_timed_where_its_plan_may_be_chosen(new_con, monkeypatch):
    timed = []
    plain = trials.time_pass

    def noted(problem, start, question, curvature):
        timed.append((problem.d, curvature))
        return plain(problem, start, question, curvature)

    monkeypatch.setattr(trials, "time_pass", noted)
    for width, rows in ((100, 3000), (5000, 60)):
        new_con.execute(
            f"SELECT train_model('poisson', i % 7, {DENSE.format(width=width)}) "
            f"FROM range({rows}) t(i)"
        ).fetchall()
    assert timed == [(100, False), (100, True), (5000, False)]
