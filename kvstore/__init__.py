"""The store of models that are larger than memory.

Qin, Torres, Rusu, *Scalable Asynchronous Gradient Descent Optimization for Out-of-Core Models*,
VLDB 2017, keep a model in LevelDB under composite keys: a key is a partition of features, its
payload their weights. There are two kinds of store, and a cache of the first:

* `ModelStore`, the working store of one training: LevelDB in a private directory, batches of
  partitions in and out as arrays (`get`, `put`, and `add`, which is get-merge-put and loses no
  update), memory under a budget, `checkpoint` and `resume`.
* `Frames`, its payloads in memory while kernels train in place (`ModelStore.frames`): at most one
  frame a key, shared by all workers, so that no update is lost and what one worker reads is at
  once there for the others. Changed payloads go back to LevelDB when memory is needed, and all of
  them before a checkpoint.
* `SealedModel`, a finished model: one immutable file in the order of feature ids, named by its
  SHA-256, mapped by any number of processes, each block checked when it is first read.

`StoreRoot` gives both their names below one directory:

    root = StoreRoot()                                   # TUSKML_STORE_ROOT, or the data folder
    store = root.create("ads", partitioning.index, "float32", memory=1 << 28)
    values = store.get(keys)                             # (n, width), or get_ragged
    store.add(keys, entries, slots, deltas)              # from any number of threads
    store.checkpoint({"epoch": 3})                       # root.resume("ads") after a crash
    version = root.publish(store, {"task": "svm"})       # version.reference: "ads@1:9f86d081..."
    store.discard()
    root.open(version.reference).weights(ids)            # 0 for features never seen
    root.create("ads", index, warm_start="ads@1")

What holds whatever happens: a process that dies at any moment, a full disk, a failing one, lost
power, flipped or missing bytes leave the last version and the last checkpoint, or end in a
StoreError; never in another model. A second open, in this process or another, is refused with the
owner's pid.

`working` is the store of a training, over `database` (LevelDB), `frames` and `checkpoints`;
`routes` are weights that travel between chunks of rows; `sealed` writes and reads sealed files;
`root`, `names`, `versions`, `maintenance` and `transfer` are what concerns all stores of a root;
`files` has durable files and locks. `native/` is C++ over LevelDB's C interface (kernels see
`frames.h`), and `mapped/` is C: the reader of sealed files, which `predict` in SQL shares.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuskml.kvstore.access import Reference
    from tuskml.kvstore.checkpoints import Checkpoint
    from tuskml.kvstore.database import LEAST_MEMORY, Counters, buffers_of, measure_store
    from tuskml.kvstore.frames import LEAST_FRAME_MEMORY, FrameCounters, Frames
    from tuskml.kvstore.maintenance import RemovedItem, Rules, collect, list_stores, verify_stores
    from tuskml.kvstore.root import StoreRoot
    from tuskml.kvstore.sealed import SealedModel
    from tuskml.kvstore.transfer import export_model, import_model
    from tuskml.kvstore.versions import (
        Version,
        keep_partitioning,
        list_partitionings,
        read_partitioning,
    )
    from tuskml.kvstore.working import ModelStore

__all__ = [
    "LEAST_FRAME_MEMORY",
    "LEAST_MEMORY",
    "Checkpoint",
    "Counters",
    "FrameCounters",
    "Frames",
    "ModelStore",
    "Reference",
    "RemovedItem",
    "Rules",
    "SealedModel",
    "StoreRoot",
    "Version",
    "buffers_of",
    "collect",
    "export_model",
    "import_model",
    "keep_partitioning",
    "list_partitionings",
    "list_stores",
    "measure_store",
    "read_partitioning",
    "verify_stores",
]

# A name is imported when it is first used: most trainings need no store.
_HOMES = {
    "Removed": "maintenance",
    "Rules": "maintenance",
    "collect": "maintenance",
    "list_stores": "maintenance",
    "verify_stores": "maintenance",
    "Reference": "access",
    "keep_partitioning": "versions",
    "list_partitionings": "versions",
    "read_partitioning": "versions",
    "StoreRoot": "root",
    "export_model": "transfer",
    "import_model": "transfer",
    "Version": "versions",
    "SealedModel": "sealed",
    "Checkpoint": "checkpoints",
    "LEAST_MEMORY": "database",
    "Counters": "database",
    "buffers_of": "database",
    "LEAST_FRAME_MEMORY": "frames",
    "FrameCounters": "frames",
    "Frames": "frames",
    "measure_store": "database",
    "ModelStore": "working",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tuskml.kvstore' has no attribute {name!r}")
    value = getattr(import_module(f"tuskml.kvstore.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
