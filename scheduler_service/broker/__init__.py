"""Redis and Celery as the leader uses them: messages, queues, claims, the inbox."""
