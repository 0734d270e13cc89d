from django.db import models


class Order(models.Model):
    """One order; its confirmation is sent by a task."""

    email = models.EmailField()
    placed_at = models.DateTimeField(auto_now_add=True)
    confirmed = models.BooleanField(default=False)
