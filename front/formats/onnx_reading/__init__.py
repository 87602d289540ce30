"""Models from ONNX graphs, whose nodes are followed from the features to the outputs."""
