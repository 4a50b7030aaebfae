"""One model, one file, one objective."""
