"""Kaoudi et al., A Cost-based Optimizer for Gradient Descent Optimization, SIGMOD 2017."""
