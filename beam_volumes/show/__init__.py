"""Looking at volumes, plans, tables and runs: pictures, pages, and what viewers ask for."""
