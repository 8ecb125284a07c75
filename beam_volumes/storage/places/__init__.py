"""Paths and URLs: access, credentials, ownership, transfers and errors."""
