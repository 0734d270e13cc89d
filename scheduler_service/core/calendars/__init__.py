"""Named calendars: what they hold, how their rules are read and compiled, and how they close a job's schedule."""
