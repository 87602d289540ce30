"""Centres of clusters: the task `kmeans`."""
