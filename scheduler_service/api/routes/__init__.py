"""The routes under /api/v1, and the health checks.

A route reads the request, calls the stores and shows the result. 2xx promises that the change is committed; only live
questions wait for a leader. A hint to the leader comes after the commit and may be lost: it polls for such rows.
"""
