"""Monitors: schedules that expect a ping from outside."""
