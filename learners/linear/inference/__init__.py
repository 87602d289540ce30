"""Inference after a training: errors, statuses, and models that rows do not determine."""
