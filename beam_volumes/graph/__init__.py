"""Lazy expressions: volumes, tables and numbers, and their nodes."""
