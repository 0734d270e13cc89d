"""Redis and Celery for the leader: messages, queues, claims, and the inbox."""
