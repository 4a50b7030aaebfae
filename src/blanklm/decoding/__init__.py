"""Filling canvases with any ``core.policy.Scorer``: ``fill.fill`` and ``sample.sample`` are the two entries."""
