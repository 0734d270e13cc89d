"""Logs, traces, and the leader's HTTP port."""
