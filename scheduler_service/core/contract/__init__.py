"""Jobs and runs as JSON: what callers may send, what they are shown, what is stored."""
