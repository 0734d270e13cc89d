"""The client: over HTTP, and within a PostgreSQL transaction of the caller."""
