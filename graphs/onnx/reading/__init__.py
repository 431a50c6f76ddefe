"""What each ONNX operator means, written with torch functions on traced tensors; a family per file."""
