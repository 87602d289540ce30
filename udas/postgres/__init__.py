"""The PostgreSQL door: a C extension that packs rows and returns models."""
