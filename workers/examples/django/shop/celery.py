"""The Celery app, as Celery's own guide for Django has it; the last line is what Itinerary adds."""

import os

from celery import Celery

import itinerary

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")

app = Celery("shop")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

itinerary.attach(app)
