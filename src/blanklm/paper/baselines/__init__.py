"""The models that the BLM is compared with, one model per file."""
