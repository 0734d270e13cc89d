"""Processes: supervision, children, console, addresses, and the run file."""
