"""The DuckDB door: a C extension that packs rows and returns models."""
