"""The working store of a training: partitions in LevelDB, their cache, checkpoints."""
