"""Dense passes on an NVIDIA GPU: the same operators, rows on the device, kernels by CuPy.

`cuda.py` alone imports CuPy, and only when it is asked for; all else works on any `Device`.
"""

from tuskml.udas.gpu.cuda import availability

__all__ = ["availability"]
