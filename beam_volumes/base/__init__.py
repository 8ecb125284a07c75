"""What every other package may import: geometry, axes, texts, exports."""
