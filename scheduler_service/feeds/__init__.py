"""The parts of calendars that are not pure: files from the web, and rules written out in a process with limits."""
