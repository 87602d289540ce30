"""Linear models along a path of L1 penalties: the kernels of `kernels/native/paths`."""
