"""Jobs and runs as JSON: requests, answers, and stored definitions."""
