"""The choice of the algorithm of a linear model: candidates, costs and selection."""
