"""Builds the parts of each process from its settings; the one place that knows all adapters."""
