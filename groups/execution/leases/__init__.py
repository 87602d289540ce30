"""Leases of a Ray cluster's workers: the arbiter's process, and runs whose workers change."""
