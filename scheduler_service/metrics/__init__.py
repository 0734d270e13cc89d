"""What Prometheus is shown."""
