"""Outputs: sinks for volumes and tables, added levels, provenance."""
