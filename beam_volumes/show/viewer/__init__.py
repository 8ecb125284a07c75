"""Serving a volume to viewers: chunks, layers and the server."""
