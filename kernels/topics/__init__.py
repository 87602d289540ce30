"""Topics of documents: the kernels of `kernels/native/topics`."""
