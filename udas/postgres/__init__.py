"""The interface to PostgreSQL: a C extension that packs rows and returns models."""
