"""DICOM: series, enhanced multi-frame files and slide pyramids."""
