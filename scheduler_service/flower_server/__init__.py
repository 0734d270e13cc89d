"""Flower behind our own guard: access rules, and one-click logins for the dashboard's users."""
