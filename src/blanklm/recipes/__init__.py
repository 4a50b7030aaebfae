"""One file for each table of the paper and for each bundled model; each runs with ``python -m``."""
