"""The transforms for other SDKs: configured by rows, with rows as elements, from an expansion service."""
