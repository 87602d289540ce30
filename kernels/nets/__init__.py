"""Dense neural nets: the kernels of `kernels/native/nets`."""
