"""The kernels' source (`cuda/`), and its specialisation for a shape of rows.

Macros fix the number of features and the type of values, so that loops over features unroll and
sums stay in registers. The first comment of each kernel gives the reasons for the choices made
here.
"""

import functools
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "cuda"
MOST_FUSED = 1024
"""Largest number of features for which a row's sums of the gradient fit in a warp's registers."""
MOST_GROUPED = 64
"""Largest number of features for which a block keeps a group's whole curvature, and solves with
it.
"""
MOST_SHARED = 227 << 10
"""Bytes of shared memory that a block may have on Hopper."""
LEAST_SHARED = 99 << 10
"""Bytes of shared memory on the smallest supported devices: curvatures and systems fit, but not
all passes.
"""
MOST_TILES = 15
"""Tiles of 8 x 8 products that a warp keeps in registers."""
TILE_BYTES = 8 << 10
LANES_FEATURES = 16
"""Sums per lane, for rows that several lanes share."""
SMALL_ROWS = 256
"""Chunks of at most this many rows are given to a single warp."""
FACTOR_THREADS = 64
"""Threads of a block that trains ratings: two warps, so that few workers use many SMs."""


@dataclass(frozen=True)
class Source:
    """One kernel of some files with its macros; shared: bytes of dynamic shared memory."""

    kernel: str
    files: tuple[str, ...]
    macros: tuple[tuple[str, int | str], ...]
    threads: int
    shared: int = 0

    def text(self) -> str:
        """The source text that is compiled."""
        defined = "".join(f"#define {name} {value}\n" for name, value in self.macros)
        return defined + "".join(read(file) for file in ("common.cuh", *self.files))


@functools.cache
def read(name: str) -> str:
    """Reads one of the kernels' files."""
    return (FOLDER / name).read_text()


def type_name(size: int) -> str:
    """C type of values of 4 or 8 bytes."""
    return {4: "float", 8: "double"}[size]


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << max(0, n - 1).bit_length()


def stride_of(d: int, vec: int, lanes: int) -> int:
    """Values from one row in shared memory to the next.

    Eight lanes read at once, 16 bytes each, from 8 / lanes rows, which must start in different
    banks. For rows that are read value by value an odd distance ensures this.
    """
    if vec == 1 or lanes >= 8:
        return d
    units = d // vec
    while units % (2 * lanes) != lanes:
        units += 1
    return units * vec


@dataclass(frozen=True)
class Tiles:
    """Tiles of a gradient's blocks: bytes of a tile, most warps of a block, tiles in
    shared memory, and sums per lane where several lanes share a row.

    With two tiles three or four blocks fit on a multiprocessor. On an H200 that was faster than
    three tiles and fewer blocks for every width.
    """

    size: int = TILE_BYTES
    warps: int = 4
    stages: int = 2
    lane_features: int = LANES_FEATURES


def gradient(d: int, size: int, rows: int, tiles: Tiles = Tiles()) -> Source:
    """Source of the fused pass for d features of `size` bytes.

    rows: rows of a typical chunk.
    """
    vec = 16 // size if d % (16 // size) == 0 else 1
    lanes = 1 if d <= 32 else min(32, power_of_two(-(-d // tiles.lane_features)))
    side_by_side, stride = 32 // lanes, stride_of(d, vec, lanes)
    steps = 1
    while 2 * steps <= lanes and 2 * steps * side_by_side * stride * size <= tiles.size:
        steps *= 2
    while vec == 1 and steps < lanes and steps * side_by_side * d * size % 16:
        steps *= 2  # whole tiles can be copied 16 bytes at a time, if single rows cannot
    tile_rows = side_by_side * steps
    flat = int(vec == 1 and tile_rows * d * size % 16 == 0)
    each = -(-(d // vec) // lanes) * vec
    warps = 1 if rows <= SMALL_ROWS else tiles.warps
    tile = tile_rows * stride * size
    shared = max(-(-each * lanes // 2) * 16 + warps * tiles.stages * tile, warps * (d + 3) * 8)
    macros: dict[str, int | str] = {
        "D": d,
        "T": type_name(size),
        "VEC": vec,
        "LANES": lanes,
        "STEPS": steps,
        "STRIDE": stride,
        "FLAT": flat,
        "STAGES": tiles.stages,
        "WARPS": warps,
        "KEEP_WEIGHTS": int(lanes > 1 and each <= LANES_FEATURES),
    }
    return Source("gradient", ("gradient.cu",), tuple(macros.items()), 32 * warps, shared)


SUMS = Source("add_chunks", ("sums.cu",), (), 1024)


def curvature(d: int, size: int) -> Source:
    """Source of gradient and curvature of d <= MOST_GROUPED features."""
    threads, side = 128, (d + 9) // 8
    tiles = side * (side + 1) // 2
    parts = 1 if tiles <= MOST_TILES else 4
    teams, vec = threads // 32 // parts, 16 // size
    stride = (d // vec | 1) * vec if d % vec == 0 else d
    room = max(teams * 2 * 32 * stride * size, 8 * 64 * tiles)
    shared = 8 * (3 * d + 64 * teams + 3 * d % 2) + room
    macros = (("D", d), ("T", type_name(size)), ("THREADS", threads), ("PARTS", parts))
    return Source("curvature", ("panel.cuh", "curvature.cu"), macros, threads, shared)


def solver(p: int) -> Source:
    """Returns the kernel for Cholesky's method on p x p systems, p <= MOST_GROUPED + 1."""
    threads = 32 if p <= 16 else 64 if p <= 32 else 128
    shared = 8 * (p * (p | 1) + 2 * p)
    return Source(
        "solve", ("cholesky.cuh", "solve.cu"), (("P", p), ("THREADS", threads)), threads, shared
    )


def epoch(d: int, size: int, batch_size: int, anchored: bool) -> Source:
    """Source of a stochastic epoch, with variance reduction when anchored; see `fits_epoch`."""
    threads = 32 if batch_size <= 4 and d <= 64 else 128
    macros: dict[str, int | str] = {
        "T": type_name(size),
        "THREADS": threads,
        "ANCHORED": int(anchored),
    }
    return Source(
        "epoch", ("epoch.cu",), tuple(macros.items()), threads, 8 * d * (5 + 2 * anchored)
    )


def fits_epoch(d: int, shared_bytes: int = MOST_SHARED) -> bool:
    """Returns whether a model and the sums of an epoch fit in a block's shared memory."""
    return 8 * d * 7 <= shared_bytes - (4 << 10)


def wide(kernel: str, size: int, each: int = 8) -> Source:
    """Source of the passes over wide rows.

    each: bytes per value of a panel.
    """
    macros = (("T", type_name(size)), ("E", type_name(each)))
    return Source(kernel, ("wide.cu", "margins.cu"), macros, 256)


def newton(d: int, size: int, blocks: int = 0) -> Source:
    """Source of some iterations of Newton's method for a group of d <= MOST_GROUPED features per
    block.

    blocks: number that should run on a multiprocessor at once; 0: by the registers that d takes.
    """
    base, p = curvature(d, size), d + 1
    system = p * (p | 1) + p  # shares the panel's memory, after w, shift and scale
    panel = max(base.shared // 8, 3 * d + system)
    shared = 8 * (panel + d + 3 + p * (p + 1) // 2 + 4 * p)
    at_once = blocks or (5 if d <= 16 else 4 if d <= 30 else 3)
    macros = (*base.macros, ("BEHIND_PANEL", panel), ("BLOCKS", at_once))
    files = ("panel.cuh", "cholesky.cuh", "newton.cu")
    return Source("newton", files, macros, base.threads, shared)


def factors(kernel: str, rank: int, biases: bool) -> Source:
    """Source of a kernel of matrix factorization. Vectors are `factor_stride` floats apart."""
    stride = factor_stride(rank, biases)
    macros = (
        ("WIDTH", rank + biases),
        ("STRIDE", stride),
        ("BIASES", int(biases)),
        ("LANES", factor_lanes(stride)),
    )
    return Source(kernel, ("factorization.cu",), macros, FACTOR_THREADS)


def factor_stride(rank: int, biases: bool) -> int:
    """Floats from one vector to the next, a multiple of a sector of 32 bytes."""
    return -(-(rank + biases) // 8) * 8


def factor_lanes(stride: int) -> int:
    """Number of lanes that share a rating. Each reads 16 bytes of each vector at a time."""
    return min(32, power_of_two(stride // 4))
