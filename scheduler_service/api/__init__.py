"""The HTTP API and the dashboard over it."""
