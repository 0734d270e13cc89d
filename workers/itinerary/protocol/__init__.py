"""What server, workers and clients agree on. Standard library only."""
