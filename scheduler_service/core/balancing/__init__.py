"""The placement of balanced jobs' runs, so that few are due together."""
