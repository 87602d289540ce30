"""The interface to DuckDB: a C extension that packs rows and returns models."""
