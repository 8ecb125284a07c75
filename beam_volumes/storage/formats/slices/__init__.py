"""Folders of 2-D images."""
