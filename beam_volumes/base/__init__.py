"""Shared by all other packages: geometry, axes, text, exports."""
