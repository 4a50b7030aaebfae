"""Rewrite texts in another style: mask, fill, choose."""
