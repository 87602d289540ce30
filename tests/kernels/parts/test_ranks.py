"""Quantiles by rounds of counts, against those of all numbers of a slot in one place."""

import numpy as np
import pytest

from tuskml.kernels.trees.parted.ranks import MOST_COUNTS, Keys, quantiles, rounds

SIGN = np.uint64(1 << 63)


def keys_of(numbers: np.ndarray) -> Keys:
    bits = (numbers + 0.0).view(np.uint64)
    return np.where(bits >= SIGN, ~bits, bits | SIGN)


@pytest.mark.parametrize("slots", [1, 31, 3000])
def test_an_answer_stays_small_with_many_leaves(slots: int) -> None:
    """And the quantiles are those of NumPy, whose definition is the same."""
    rng = np.random.default_rng(slots)
    numbers = rng.normal(size=5 * slots).round(1)
    slot = np.arange(len(numbers)) % slots
    keys, sizes = keys_of(numbers), list[int]()

    def count(first: Keys, known: int, bits: int) -> np.ndarray:
        found = np.zeros((slots, 1 << bits), np.int64)
        prefix = keys >> np.uint64(64 - known) if known else np.zeros_like(keys)
        mine = prefix == first[slot]
        place = (keys << np.uint64(known)) >> np.uint64(64 - bits)
        np.add.at(found, (slot[mine], place[mine].astype(np.int64)), 1)
        sizes.append(found.size)
        return found

    def after(least: Keys) -> Keys:
        found = np.full(slots, 2**64 - 1, np.uint64)
        more = keys > least[slot]
        np.minimum.at(found, slot[more], keys[more])
        return found

    quantile = quantiles(slots, 0.3, count, after, weighted=False)
    wanted = [np.quantile(numbers[slot == one], 0.3) for one in range(slots)]
    assert quantile == pytest.approx(wanted, rel=1e-12, abs=1e-12)
    assert max(sizes) <= MOST_COUNTS


@pytest.mark.parametrize("slots", [0, 1, 128, 129, 5000, 65_536])
def test_rounds_have_all_bits_of_a_key(slots: int) -> None:
    assert sum(rounds(slots)) == 64
    assert min(rounds(slots)) > 0
