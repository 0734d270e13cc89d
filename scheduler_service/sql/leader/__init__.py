"""The leader's own reads and writes in the database; its lease guards each write."""
