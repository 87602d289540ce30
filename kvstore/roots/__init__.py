"""All stores below one directory: names, versions, checks, export, and what can be removed."""
