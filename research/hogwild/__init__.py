"""Qin, Torres, Rusu, Scalable Asynchronous Gradient Descent Optimization, VLDB 2017."""
