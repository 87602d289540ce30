"""SQL's table form `train(...)` on the workers of a cluster."""
