"""DuckDB and PostgreSQL as Python sees them: dialects, sources of rows, row groups, limits."""
