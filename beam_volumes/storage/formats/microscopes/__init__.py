"""Files of microscopes."""
