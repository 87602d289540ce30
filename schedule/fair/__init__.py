"""Finish-time fairness on a cluster (Themis): valuations, auctions, leases, an arbiter, agents."""
