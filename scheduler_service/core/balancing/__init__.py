"""Where the runs of balanced jobs are placed, so that few fall due together."""
