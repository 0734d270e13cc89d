"""The database: engine, tables, rows, and all stores except those that only the leader writes."""
