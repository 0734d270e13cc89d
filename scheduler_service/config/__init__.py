"""Settings, read from the environment and validated before anything is opened."""
