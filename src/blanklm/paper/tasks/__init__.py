"""Hide, fill, score: strings in, numbers out."""
