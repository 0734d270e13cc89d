"""The app that a project installs."""

from django.apps import AppConfig
from django.core import checks

from itinerary.django.settings import problems


class ItineraryConfig(AppConfig):
    """`itinerary.django` in INSTALLED_APPS."""

    name = "itinerary.django"
    label = "itinerary"
    verbose_name = "Itinerary"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Have `manage.py check`, and every start, judge the settings."""
        checks.register(problems)
