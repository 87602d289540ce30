"""The database's batch of groups and the answers to it."""
