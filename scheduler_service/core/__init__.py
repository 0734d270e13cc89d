"""The deterministic core: it decides, and others carry out. No I/O, clock, randomness, threads or logging."""
