"""Filling canvases with any ``blanklm.policy.Policy``: greedy, beam search, sampling, all blanks at once."""
