"""The tasks of the paper: strings in, strings and numbers out; no task knows a model class."""
