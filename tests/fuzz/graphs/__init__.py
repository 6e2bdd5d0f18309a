"""Random ONNX graphs against ONNX Runtime and onnx's reference: `python -m tests.fuzz.graphs`."""
