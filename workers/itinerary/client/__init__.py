"""The client: over HTTP, and within the caller's own PostgreSQL transaction."""
