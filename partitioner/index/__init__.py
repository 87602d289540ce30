"""The index map: where each feature lives, for frequent features, blocks and live ones."""
