"""One training loop for every model, and what it reads and writes."""
