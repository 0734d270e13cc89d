"""OpenTelemetry, if it is installed and configured."""
