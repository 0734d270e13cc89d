"""The agreements between server, workers and clients. Standard library only."""
