"""The routes under /api/v1, and the health checks."""
