"""Lazy expressions: volumes, tables, numbers, and the nodes that they hold."""
