"""One module for each table of the paper: train, measure, write the row."""
