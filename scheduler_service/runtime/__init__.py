"""Processes: supervision, children, console, addresses, the run file."""
