"""Binary and grey morphology, distances, and footprints."""
