"""TIFF: single files, stacks, ImageJ and OME."""
