"""How each bundled model was made."""
