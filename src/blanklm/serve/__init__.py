"""``blanklm serve``: the HTTP API and the web page, one process with one worker that fills in batches."""
