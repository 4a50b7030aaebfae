"""Many texts: lines of a file, and many files on many machines."""
