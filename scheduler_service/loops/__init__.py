"""The leader's threads: one loop that decides, and around it the threads that do the I/O."""
