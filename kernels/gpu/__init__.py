"""Dense passes on an NVIDIA GPU: the same operators, with rows on the device and kernels by CuPy.

Only `cuda.py` imports CuPy, and only when a GPU is requested. Everything else works on any
`Device`.
"""

from tuskml.kernels.gpu.cuda import availability

__all__ = ["availability"]
