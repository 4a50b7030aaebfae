"""Damaged Greek and Latin texts: notation in, ranked restorations out, in the same notation."""
