"""The evidence: baselines, tasks, tables of the paper and recipes of the bundled models. Only the CLI imports it."""
