"""The planner: statistics in, plan out."""
