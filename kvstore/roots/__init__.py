"""All stores below one directory: names, versions, checks, export, and garbage collection."""
