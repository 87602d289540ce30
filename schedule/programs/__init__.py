"""Programs of scheduled model parallelism: three functions that engines run on workers."""
