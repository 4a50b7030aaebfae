"""Filling canvases with any ``blanklm.core.policy.Policy``: greedy, beam search, sampling, all blanks at once."""
