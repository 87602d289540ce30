"""Nodes of ONNX graphs of kinds of models."""
