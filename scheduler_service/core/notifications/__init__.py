"""Notifications: the events that targets subscribe to, and their messages."""
