"""Jobs and runs as the admin and Django's permissions know them. They are rows of the service: no table is here."""

from django.db import models


class _NoRows(models.Manager):
    """Nothing of this project's database, so that `dumpdata` and the like pass over these models."""

    def get_queryset(self) -> models.QuerySet:
        return super().get_queryset().none()


class Job(models.Model):
    """A job of the service."""

    objects = _NoRows()

    class Meta:
        managed = False
        default_permissions = ("view",)


class Run(models.Model):
    """A run of the service."""

    objects = _NoRows()

    class Meta:
        managed = False
        default_permissions = ("view",)
