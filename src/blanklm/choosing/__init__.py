"""Choose among named options for the blanks of a text, by their likelihood in place."""
