"""The pure core: what is decided, never how it is done. No I/O, clock, randomness, threads or logging."""
