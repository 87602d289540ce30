"""The offline stage of models larger than memory: which features share a key of the store.

Implements section 5 of Qin, Torres, Rusu, *Scalable Asynchronous Gradient Descent Optimization for
Out-of-Core Models*, VLDB 2017, figure 2 from left to right:

* `frequencies`: the approximately most frequent features, by a sketch ("Sampling & frequency-based
  pruning"); `reservoir`: a uniform sample of rows.
* `cost`: the cost function t_s + |P| t_u ("Cost function"), and its measurement on a store.
* `merging`: Algorithm 3, which merges the frequent features greedily into partitions; native.
* `blocks`, `block_choice`: what the paper has not: rare features share keys by rule, in blocks
  sized by the same cost function.
* `live`: what else it has not: the features that occur, numbered; then blocks are of those.
* `index_map`: feature to (key, slot) ("Model vertical partitioning", "index map"), as bytes too.
* `explanation`: keys, sizes and requests saved, as data. `plan` puts all of it together.

    profile = Profile(top=1000, sample=10_000, seed=0)
    for indptr, ids in chunks:            # index arrays of CSR matrices
        profile.update(indptr, ids)
    made = profile.partition(measure_cost(store))
    keys, slots = made.index.locate(ids)

The SQL aggregates `feature_frequencies` and `partition_model` call the functions of these names.
"""

from tuskml.partitioner.block_choice import Candidate, choose_blocks
from tuskml.partitioner.cost import WARM_LEVELDB, BatchStore, Cost, measure_cost
from tuskml.partitioner.explanation import Explanation, Partition, Requests
from tuskml.partitioner.frequencies import Frequencies, FrequentFeatures, feature_frequencies
from tuskml.partitioner.index.blocks import Blocks
from tuskml.partitioner.index.index_map import IndexMap
from tuskml.partitioner.index.live import LiveFeatures
from tuskml.partitioner.merging import Merges, Merging, merge_features
from tuskml.partitioner.plan import Partitioning, Profile, partition_model
from tuskml.partitioner.reservoir import RowSample
from tuskml.partitioner.rows import SparseRows, sparse_rows

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
