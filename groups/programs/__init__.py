"""Runs programs of scheduled updates on threads of this process, or on a Ray cluster."""
