"""The database: engine, tables, rows, and every store but what only the leader writes."""
