"""Parsing of parameters: checks, neighbourhoods, and paragraphs that docstrings share."""
