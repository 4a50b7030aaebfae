"""Models in the formats of other runtimes."""
