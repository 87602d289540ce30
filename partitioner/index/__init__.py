"""The index map from features to keys and slots, with blocks and live features."""
