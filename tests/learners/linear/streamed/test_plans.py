"""The plans of a training whose rows are a table or files: what they cost, and which is chosen."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuskml.learners.linear.options import parse
from tuskml.learners.linear.planner.candidates import PlanCosts
from tuskml.learners.linear.request import Request
from tuskml.learners.linear.streamed import skipping
from tuskml.learners.linear.streamed.plans import (
    Source,
    all_plans,
    best_part,
)
from tuskml.learners.linear.tasks import LINEAR
from tuskml.learners.machine import constants, reading
from tuskml.learners.row_groups import RUN_ROWS, Piece, Storage, lay_out

SAMPLERS = ("bernoulli", "random-partition", "shuffled-partition")
ELEVEN = {
    "bgd on all rows",
    *(f"{a} {t} {s}" for a in ("mgd", "sgd") for t in ("eager", "lazy") for s in SAMPLERS),
} - {"mgd lazy bernoulli", "sgd lazy bernoulli"}
"""Figure 5 of Kaoudi et al., SIGMOD 2017."""


def source(storage, d=28, reads=None, threads=1, task="logistic", **options):
    options = {"epsilon": 0.01} | options
    request = Request(LINEAR[task], parse(json.dumps(options)))
    known = constants.shipped_constants()
    return Source(storage, request, d, threads, reads or reading.shipped_reading(), known)


def parquet(groups=200, rows=122_880, row_bytes=112):
    return Storage("parquet", (rows,) * groups, groups * rows * row_bytes, whole=True)


def blocks(ranges=500, rows=8192, row_bytes=128):
    return Storage("blocks", (rows,) * ranges, ranges * rows * row_bytes, block=8192)


def layout(storage, chunk=65_536):
    found = lay_out(storage.sizes, 40_000, chunk, 150_000, np.random.default_rng(0), 2)
    assert found is not None
    return found


def plans(storage, why=None, **more):
    return all_plans(source(storage, **more), layout(storage), why)


def by_name(found):
    return {one.name: one for one in found}


def test_the_papers_eleven_plans_and_ours_are_compared() -> None:
    found = by_name(plans(parquet()))
    assert found.keys() >= ELEVEN
    assert all(found[name].refusal is None for name in ELEVEN)
    assert {"newton on all rows", "lbfgs on all rows"} <= found.keys() - ELEVEN


def test_an_eager_plan_reads_all_and_a_lazy_one_what_it_needs() -> None:
    found = by_name(plans(parquet()))
    whole = parquet().n_bytes
    assert found["bgd on all rows"].n_bytes == found["sgd eager bernoulli"].n_bytes == whole
    assert found["mgd lazy shuffled-partition"].n_bytes == 3 * 122_880 * 112  # first two, and one


def test_a_lazy_plan_of_the_hinge_pays_for_its_proof() -> None:
    """Held-out rows, and as many that confirm the result, are passed over a dozen times."""
    hinge, smooth = (by_name(plans(parquet(), task=task)) for task in ("svm", "logistic"))
    name = "mgd lazy shuffled-partition"
    assert hinge[name].refusal is None
    costs = PlanCosts(source(parquet(), task="svm").question, constants.shipped_constants())
    held = 40_000 * costs.rows_pass("gradient", alone=True) / (200 * 122_880)
    assert hinge[name].seconds > smooth[name].seconds + 20 * held


def test_reading_all_rows_is_equation_3_and_waves_of_equation_4() -> None:
    """200 partitions in 100 waves of two threads; one disk."""
    reads = reading.Reading(query=dict.fromkeys(reading.KINDS, 0.5))
    asked = source(parquet(), reads=reads, threads=2)
    pages = math.ceil(122_880 * 112 / 4096)
    each = 29 * 122_880 * (reads.decode["parquet"] + reads.pack["parquet"])
    expected = 0.5 + 200 * (reading.SEEK_SECONDS + pages * reading.PAGE_SECONDS) + 100 * each
    assert asked.all_rows() == pytest.approx(expected)


def test_a_piece_of_a_parquet_file_costs_its_row_group_and_one_of_blocks_its_pages() -> None:
    run = Piece(0, 8192, RUN_ROWS)
    assert parquet().bytes_of(run) == 122_880 * 112
    assert blocks().bytes_of(Piece(0, 0, 4096)) == 4096 * 128
    table = Storage("table", (122_880,), 28 * 2 * (256 << 10), 28, 256 << 10)
    assert table.bytes_of(run) == 28 * (256 << 10)  # a block of each column


SLOW = reading.Reading(page=1e-3)
NO_SEEKS = reading.Reading(page=1e-3, seek=1e-12, query=dict.fromkeys(reading.KINDS, 1e-12))
SLOW_TO_ASK = reading.Reading(query=dict.fromkeys(reading.KINDS, 100.0))


def steps_cost(monkeypatch, algorithm: str) -> None:
    """As if an epoch of this algorithm took a hundred times as long."""
    known = constants.shipped_constants()
    slow = {
        storage: tuple((x, 100 * y) for x, y in table)
        for storage, table in known.passes[algorithm].items()
    }
    found = replace(known, passes={**known.passes, algorithm: slow})
    monkeypatch.setattr(constants, "shipped_constants", lambda: found)


@pytest.mark.parametrize(
    ("storage", "slow", "reads", "expected"),
    [
        (parquet(), "sgd", SLOW, "mgd lazy shuffled-partition"),
        (parquet(), "mgd", SLOW, "sgd lazy shuffled-partition"),
        (blocks(100, 100_000), "sgd", NO_SEEKS, "mgd lazy random-partition"),
        (blocks(100, 100_000), "mgd", NO_SEEKS, "sgd lazy random-partition"),
        (parquet(), "sgd", SLOW_TO_ASK, None),
    ],
)
def test_the_plan_depends_on_rows_and_disk(
    monkeypatch, storage, slow: str, reads, expected: str | None
) -> None:
    steps_cost(monkeypatch, slow)
    best = best_part(plans(storage, reads=reads))
    assert (best and best.name) == expected


def test_what_cannot_be_lazy_says_why_in_each_plan() -> None:
    found = all_plans(source(parquet()), layout(parquet()), "because")
    lazy = [one for one in found if one.way.lazy]
    assert [one.refusal for one in lazy] == ["because"] * 4
    assert best_part(found) is None
    few = all_plans(source(parquet(3)), None, None)
    assert all("3 row groups are too few" in one.refusal for one in few if one.way.lazy)


@given(rows=st.integers(2_000, 200_000), page=st.floats(1e-6, 1e-2), more=st.floats(1.1, 10))
def test_a_slower_disk_never_makes_a_plan_cheaper(rows: int, page: float, more: float) -> None:
    storage = parquet(300, rows)
    fast, slow = (plans(storage, reads=reading.Reading(page=p)) for p in (page, page * more))
    slower = by_name(slow)
    for one in fast:
        if one.refusal is None:
            assert slower[one.name].seconds > one.seconds
            assert one.seconds >= one.reading > 0


def test_a_deterministic_plan_does_not_depend_on_the_host(monkeypatch) -> None:
    monkeypatch.setattr(reading, "of_host", lambda: SLOW)
    request = Request(LINEAR["logistic"], parse('{"epsilon": 0.01, "deterministic": true}'))
    assert Source.of(parquet(), request, 3).reads == reading.shipped_reading()
    request = replace(request, options=parse('{"epsilon": 0.01}'))
    assert Source.of(parquet(), request, 3).reads == SLOW


def test_figures_of_reading_are_checked() -> None:
    value: dict = {"seek": 1, "page": 1}
    value |= {name: dict.fromkeys(reading.KINDS, 2) for name in reading.TABLES}
    assert reading.parse(value).pack["blocks"] == 2
    lacking = reading.parse(value | {"pack": {"table": 2}})
    assert lacking.pack == dict(reading.shipped_reading().pack) | {"table": 2}
    for wrong in (
        value | {"seek": -1},
        value | {"pack": {"table": 0}},
        value | {"pack": 3},
        {},
        None,
    ):
        with pytest.raises(ValueError, match=r"positive numbers|lacks"):
            reading.parse(wrong)


def test_a_refusal_counts_the_rows_that_are_read_first() -> None:
    """A third of 3.2 million rows is more than a million, but not beside what is held out."""
    for groups, told in ((26, True), (8, False)):
        storage = parquet(groups)
        request, first = source(storage).request, layout(storage).first
        assert skipping.is_too_far(request, storage.sizes, layout(storage))
        why = skipping.too_far(request, storage.sizes, layout(storage))
        assert (f"beside the first {sum(one.n_rows for one in first):,}," in why) is told
        assert why.startswith("epsilon 0.01 may need 1,000,000 rows")
