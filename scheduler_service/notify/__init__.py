"""The ways to people: mail and webhooks."""
