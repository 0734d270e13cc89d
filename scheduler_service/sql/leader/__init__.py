"""What only the leader reads and writes in the database, each statement guarded by its lease."""
