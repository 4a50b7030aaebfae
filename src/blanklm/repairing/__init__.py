"""Repair a text: find words that are improbable where they stand, and change those where the whole gains."""
