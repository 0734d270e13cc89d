"""The leader as a function: (state, messages, now) to commands. No I/O, no clock."""
