"""Rows with names in ONNX graphs."""
