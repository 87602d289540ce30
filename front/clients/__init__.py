"""Clients of DuckDB that are not Python: its command line, Node, Java and others."""
