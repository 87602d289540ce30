"""What is estimated of a training before it runs: what algorithms' descriptors work with."""
