"""Chunked formats that TensorStore reads and writes."""
