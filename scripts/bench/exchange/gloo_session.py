"""The exchanges of a worker's training by PyTorch's gloo, with the interface of `Session`.

Gloo runs operations in the order of the program, on the interfaces that GLOO_SOCKET_IFNAME lists,
one after another in turn. They are requested without waiting, so that they overlap with the
computation, as in PyTorch's own data-parallel trainings.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray


class GlooSession:
    """One worker's iterations. owned: the number of tables of each worker."""

    def __init__(self, rank: int, where: str, owned: Sequence[int]) -> None:
        dist.init_process_group("gloo", init_method=where, rank=rank, world_size=len(owned))
        self.links = SimpleNamespace(rank=rank)
        self.workers = SimpleNamespace(count=len(owned))
        self.owned, self.begun = owned, -1
        self.asked: dict[tuple[str, int], tuple[Any, Any]] = {}

    def begin(self, more: bool = True) -> None:
        """The next iteration."""
        self.begun += 1

    @contextmanager
    def computing(self, name: str) -> Iterator[None]:
        """Marks computation, which gloo ignores."""
        yield

    def submit(self, name: str, payload: Any, iteration: int | None = None) -> None:
        """Starts an exchange: the sum of an array, or an array from each worker to each."""
        at = name, self.begun if iteration is None else iteration
        if not isinstance(payload, list | tuple):
            total = torch.from_numpy(np.array(payload))
            self.asked[at] = dist.all_reduce(total, async_op=True), total
            return
        given = torch.from_numpy(np.concatenate([one.ravel() for one in payload]))
        shapes = self.shapes(name, payload)
        come = [int(np.prod(shape)) for shape in shapes]
        found = torch.empty(sum(come), dtype=given.dtype)
        sizes = [one.size for one in payload]
        work = dist.all_to_all_single(found, given, come, sizes, async_op=True)
        self.asked[at] = work, (found, come, shapes, given)

    def shapes(self, name: str, payload: Sequence[NDArray[Any]]) -> list[tuple[int, ...]]:
        """The shapes of arrays from each worker: for ids and gradients this worker's tables,
        for vectors those of the sender.
        """
        n, *_, last = payload[0].shape
        own = self.owned[self.links.rank]
        if name == "data_prep":
            return [(n, own)] * len(self.owned)
        tables = self.owned if name == "emb_fwd" else [own] * len(self.owned)
        return [(n, tables_of_one, last) for tables_of_one in tables]

    def result(self, name: str, iteration: int | None = None) -> Any:
        """An array of a sum, else a list by worker."""
        work, found = self.asked.pop((name, self.begun if iteration is None else iteration))
        work.wait()
        if isinstance(found, torch.Tensor):
            return found.numpy()
        flat, come, shapes, _ = found
        parts = np.split(flat.numpy(), np.cumsum(come)[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def finish(self) -> None:
        """Ends all exchanges."""
        dist.barrier()
        dist.destroy_process_group()
