"""Schedules: cron, intervals, calendars, zones and clock changes, and their description."""
