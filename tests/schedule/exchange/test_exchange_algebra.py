"""Compositions of motifs give what the operation says, for every shape, type and division."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tuskml.schedule.exchange import algebra
from tuskml.schedule.exchange.algebra import Expression, Motif, leaves, segment, spline
from tuskml.schedule.exchange.cells import Cells, cells, destinations, in_memory

TYPES = ["<f4", "<f8", "<f2", "<i4", "<i8", "<c16"]


def array(draw: DrawFn, dtype: str) -> np.ndarray:
    shape = draw(st.lists(st.integers(0, 5), max_size=3))
    seed = draw(st.integers(0, 2**32 - 1))
    # Magnitudes differ, so another order of additions has other bits.
    random = np.random.default_rng(seed)
    return (random.standard_normal(shape) * 10.0 ** random.integers(-3, 4, shape)).astype(dtype)


def whole(kind: algebra.Kind, workers: int, root: int = 0) -> Motif:
    return Motif(kind, tuple(range(workers)), root=root)


@st.composite
def shapes(draw: DrawFn) -> tuple[int, int]:
    """Workers, and workers per host."""
    per_host = draw(st.integers(1, 4))
    return per_host * draw(st.integers(1, 4)), per_host


@st.composite
def divided(draw: DrawFn, motif: Motif, per_host: int) -> Expression:
    """Any composition of the operators."""
    expression: Expression = motif
    if motif.kind == "all_reduce":
        expression = draw(
            st.sampled_from(
                [
                    motif,
                    algebra.scatter(motif),
                    algebra.treed(motif, 2, per_host),
                    algebra.treed(motif, 4, per_host),
                    algebra.split_by_host(motif, per_host),
                ]
            )
        )
    for operator in draw(st.lists(st.sampled_from([segment, spline]), max_size=3)):
        expression = operator(expression, draw(st.integers(1, 3)))
    return expression


def by_pairs(terms: list[np.ndarray]) -> np.ndarray:
    """The documented order of additions, in other words than the code's: halves at a power of
    two."""
    if len(terms) == 1:
        return terms[0]
    half = 1 << (len(terms) - 1).bit_length() - 1
    return by_pairs(terms[:half]) + by_pairs(terms[half:])


def run(motif: Motif, expression: Expression, per_host: int, payloads: list[Any]) -> list[Any]:
    memories: list[Cells] = [
        cells(motif.kind, rank, payload, per_host, motif.root)
        for rank, payload in enumerate(payloads)
    ]
    return in_memory(expression, memories)


def same(left: np.ndarray, right: np.ndarray) -> bool:
    return (
        left.shape == right.shape
        and left.dtype == right.dtype
        and left.tobytes() == right.tobytes()
    )


@given(st.data())
@settings(deadline=None, max_examples=40)
def test_all_reduce_has_the_same_bits_in_every_composition(data: st.DataObject) -> None:
    workers, per_host = data.draw(shapes())
    dtype = data.draw(st.sampled_from(TYPES))
    first = array(data.draw, dtype)
    payloads = [np.asarray(first * (3 * k + 1) / 7).astype(dtype) for k in range(workers)]
    motif = whole("all_reduce", workers)
    hosts = [by_pairs(payloads[k : k + per_host]) for k in range(0, workers, per_host)]
    expected = by_pairs(hosts)
    before = [each.copy() for each in payloads]
    for result in run(motif, data.draw(divided(motif, per_host)), per_host, payloads):
        assert same(result, np.asarray(expected))
    assert all(map(same, payloads, before)), "what the caller gave has not changed"


@given(st.data())
@settings(deadline=None, max_examples=40)
def test_other_operations_bring_every_payload_unchanged(data: st.DataObject) -> None:
    workers, per_host = data.draw(shapes())
    kind = data.draw(st.sampled_from(["all_to_all", "all_gather", "broadcast"]))
    dtype = data.draw(st.sampled_from(TYPES))
    root = data.draw(st.integers(0, workers - 1))
    motif = whole(kind, workers, root)
    expression = data.draw(divided(motif, per_host))
    if kind == "all_to_all":
        sent = [[array(data.draw, dtype) for _ in range(workers)] for _ in range(workers)]
        results = run(motif, expression, per_host, sent)
        expected = [[sent[source][to] for source in range(workers)] for to in range(workers)]
    elif kind == "all_gather":
        one = [array(data.draw, dtype) for _ in range(workers)]
        results, expected = run(motif, expression, per_host, one), [one] * workers
    else:
        payload = array(data.draw, dtype)
        given_ = [payload if rank == root else None for rank in range(workers)]
        results = [[each] for each in run(motif, expression, per_host, given_)]
        expected = [[payload]] * workers
    for result, right in zip(results, expected, strict=True):
        assert all(map(same, result, right))


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_splining_divides_the_transfers_and_repeats_none(count: int) -> None:
    motif = whole("all_to_all", 6)
    pairs = [(i, to) for i in range(6) for to in destinations(motif, i)]
    parts = [
        (i, to)
        for each in leaves(spline(motif, count))
        for i in range(6)
        for to in destinations(each, i)
    ]
    assert sorted(parts) == sorted(pairs)
    assert len(list(leaves(spline(motif, count)))) == count


def test_another_order_of_additions_would_be_seen() -> None:
    random = np.random.default_rng(5)
    payloads = [random.standard_normal(100).astype("<f4") for _ in range(8)]
    motif = whole("all_reduce", 8)
    one = run(motif, algebra.scatter(motif), 1, payloads)[0]
    assert not same(one, np.asarray(sum(payloads[1:], payloads[0])))


@pytest.mark.parametrize("operator", [segment, spline])
def test_no_parts_are_an_error(operator: Any) -> None:
    with pytest.raises(ValueError, match="is 0, expected at least 1"):
        operator(whole("all_to_all", 2), 0)


def test_an_arity_that_is_no_power_of_two_is_an_error() -> None:
    with pytest.raises(ValueError, match="the arity is 3, expected a power of two"):
        algebra.treed(whole("all_reduce", 4), 3)
