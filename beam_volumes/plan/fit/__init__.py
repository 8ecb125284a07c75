"""Partitionings that fit: tiles, slabs, windows and concurrency within the memory limit."""
