"""Settings, read from the environment and judged before anything is opened."""
