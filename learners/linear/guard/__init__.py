"""A guard over a running plan: what the planner expected of it may turn out to be wrong."""
