"""Targets of notifications: mail and webhooks."""
