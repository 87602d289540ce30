"""Recommendation models with embedding tables (DLRM) as operations, and a cluster for them.

Sources: K. Mahajan, PhD thesis, 2021, tables 4.1 and 4.2 and figures 4.13 and 4.14. What these do
not say is assumed here, once, and not adjusted to a result: samples of a worker, numbers of tables
(the tables have "~ 100s" and "~ 1000s"), the top layers' part of the parameters, the parts of the
peak rates that are reached, latencies, the cost of incast.
"""

from __future__ import annotations

from dataclasses import dataclass

from tuskml.schedule.exchange.network import Channel, Network
from tuskml.schedule.exchange.plan import Dag, Operation

GB = 1e9
REACHED = 0.8
"""Of the peak rates of links."""


def cluster(hosts: int = 16, per_host: int = 8) -> Network:
    """Table 4.1: NVSwitch at 1.2 TB/s and 8 x 100 Gbit/s RDMA a host in one channel; PCIe and
    2 x 100 Gbit/s of Ethernet a host in the other."""
    fast = Channel(1200 * GB / 8 * REACHED, 12.5 * GB * REACHED, 10e-6, 0.3)
    host = Channel(12 * GB * REACHED, 25 * GB / 8 * REACHED, 40e-6, 0.3)
    return Network(hosts, per_host, (fast, host), 20e-6)


@dataclass(frozen=True)
class Model:
    """mflops: of a sample, forwards and backwards; dim: mean length of a vector; pooling: ids of
    a table and sample; width: of the layers."""

    name: str
    mflops: float
    tables: int
    dim: float
    pooling: float
    layers: int
    width: float


MODELS = (
    Model("A1", 89, 300, 68, 27, 26, 914),
    Model("A2", 638, 1000, 93, 15, 20, 3375),
    Model("A3", 784, 1000, 231, 17, 26, 3210),
)


@dataclass(frozen=True)
class Assumed:
    """samples: of a worker and iteration; flops: a second of a GPU; memory: bytes a second; top:
    the top layers' part of layers and parameters."""

    samples: int = 512
    flops: float = 15e12 * 0.6
    memory: float = 900 * GB * 0.6
    top: float = 0.1


def operations(model: Model, assumed: Assumed = Assumed()) -> Dag:
    """Figure 4.14: an iteration of a worker."""
    dense = assumed.samples * model.mflops * 1e6 / assumed.flops
    parameters = 4.0 * model.layers * model.width**2
    vectors = 4.0 * assumed.samples * model.tables * model.dim
    looked = vectors * model.pooling / assumed.memory
    ids = 8.0 * assumed.samples * model.tables * model.pooling
    top = assumed.top
    a, b = "all_to_all", "all_reduce"
    return Dag(
        [
            Operation(
                "data_prep", kind=a, size=ids, submitted=("bwd_emb",), after_previous=("fwd_emb",)
            ),
            Operation("fwd_bottom", dense * (1 - top) / 3, after_previous=("ar_bottom",)),
            Operation("fwd_emb", looked, after=("data_prep",), after_previous=("bwd_emb",)),
            Operation("emb_fwd", kind=a, size=vectors, after=("fwd_emb",)),
            Operation(
                "fwd_top",
                dense * top / 3,
                after=("emb_fwd", "fwd_bottom"),
                after_previous=("ar_top",),
            ),
            Operation("bwd_top", dense * top * 2 / 3, after=("fwd_top",)),
            Operation("ar_top", kind=b, size=parameters * top, after=("bwd_top",)),
            Operation("emb_bwd", kind=a, size=vectors, after=("bwd_top",)),
            Operation("bwd_bottom", dense * (1 - top) * 2 / 3, after=("bwd_top",)),
            Operation("ar_bottom", kind=b, size=parameters * (1 - top), after=("bwd_bottom",)),
            Operation("bwd_emb", 2 * looked, after=("emb_bwd",)),
        ]
    )
