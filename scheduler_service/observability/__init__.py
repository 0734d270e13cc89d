"""Logs, traces and the port of the leader."""
