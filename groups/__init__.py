"""The trainer: a batch of groups in, a batch of models out."""
