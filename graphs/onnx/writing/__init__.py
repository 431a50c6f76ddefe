"""One ONNX spelling for each operator of ours; a family per file."""
