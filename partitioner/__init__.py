"""The offline stage of models larger than memory: which features share a key of the store.

Implements section 5 of Qin, Torres, Rusu, *Scalable Asynchronous Gradient Descent Optimization for
Out-of-Core Models*, VLDB 2017, figure 2 from left to right:

* `rows`: rows, the approximately most frequent features, by a sketch ("Sampling &
  frequency-based pruning"), and a uniform sample of rows.
* `cost`: the cost function t_s + |P| t_u ("Cost function"), and its measurement on a store.
* `merging`: Algorithm 3, which merges the frequent features greedily into partitions; native. And
  what the paper has not: rare features share keys by rule, in blocks sized by the same cost
  function.
* `live`: what else it has not: the features that occur, numbered; then blocks are of those.
* `index_map`: feature to (key, slot) ("Model vertical partitioning", "index map"), as bytes too.
* `plan` puts all of it together, with keys, sizes and requests saved as data.

    profile = Profile(top=1000, sample=10_000, seed=0)
    for indptr, ids in chunks:            # index arrays of CSR matrices
        profile.update(indptr, ids)
    made = profile.partition(measure_cost(store))
    keys, slots = made.index.locate(ids)

The SQL aggregates `feature_frequencies` and `partition_model` call the functions of these names.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuskml.partitioner.cost import WARM_LEVELDB, BatchStore, Cost, measure_cost
    from tuskml.partitioner.index_map import Blocks, IndexMap
    from tuskml.partitioner.live import LiveFeatures
    from tuskml.partitioner.merging import (
        Candidate,
        Merges,
        Merging,
        choose_blocks,
        merge_features,
    )
    from tuskml.partitioner.plan import (
        Explanation,
        Partition,
        Partitioning,
        Profile,
        Requests,
        partition_model,
    )
    from tuskml.partitioner.rows import (
        Frequencies,
        FrequentFeatures,
        RowSample,
        SparseRows,
        feature_frequencies,
        sparse_rows,
    )

__all__ = [
    "WARM_LEVELDB",
    "BatchStore",
    "Blocks",
    "Candidate",
    "Cost",
    "Explanation",
    "Frequencies",
    "FrequentFeatures",
    "IndexMap",
    "LiveFeatures",
    "Merges",
    "Merging",
    "Partition",
    "Partitioning",
    "Profile",
    "Requests",
    "RowSample",
    "SparseRows",
    "choose_blocks",
    "feature_frequencies",
    "measure_cost",
    "merge_features",
    "partition_model",
    "sparse_rows",
]

# A name is imported when it is first used: most trainings partition nothing.
_HOMES = {
    "WARM_LEVELDB": "cost",
    "BatchStore": "cost",
    "Cost": "cost",
    "measure_cost": "cost",
    "Blocks": "index_map",
    "IndexMap": "index_map",
    "LiveFeatures": "live",
    "Candidate": "merging",
    "Merges": "merging",
    "Merging": "merging",
    "choose_blocks": "merging",
    "merge_features": "merging",
    "Explanation": "plan",
    "Partition": "plan",
    "Partitioning": "plan",
    "Profile": "plan",
    "Requests": "plan",
    "partition_model": "plan",
    "Frequencies": "rows",
    "FrequentFeatures": "rows",
    "RowSample": "rows",
    "SparseRows": "rows",
    "feature_frequencies": "rows",
    "sparse_rows": "rows",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tuskml.partitioner' has no attribute {name!r}")
    value = getattr(import_module(f"tuskml.partitioner.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
