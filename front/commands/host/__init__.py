"""Commands about this host: what it can do, and what runs on it."""
