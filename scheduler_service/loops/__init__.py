"""The leader's threads: one loop that decides, and the threads around it that do the I/O."""
