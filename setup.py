"""Packaging is declared in pyproject.toml; this file lets Beam stage the package with ``--setup_file``."""

from setuptools import setup

setup()
