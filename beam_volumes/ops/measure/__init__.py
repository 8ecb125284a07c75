"""Numbers of whole volumes, or of lines along axes: lazy and exact."""
