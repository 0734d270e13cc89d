"""The names under which the admin's pages and their permissions are known; no table."""

from django.db import migrations, models


def _listed(name: str) -> migrations.CreateModel:
    key = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")
    return migrations.CreateModel(name, [("id", key)], {"managed": False, "default_permissions": ("view",)})


class Migration(migrations.Migration):
    initial = True
    operations = (_listed("Job"), _listed("Run"))
