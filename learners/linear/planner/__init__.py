"""Which algorithm trains a linear model: candidates, costs, the choice."""
