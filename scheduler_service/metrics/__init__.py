"""The metrics that the leader exports to Prometheus."""
