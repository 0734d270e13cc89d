"""The ITINERARY_* variables as a source of settings.

Promises that an empty variable counts as not set, whatever the letters' case of its name. Each value stays a text: its
setting's own reader parses it. pydantic-settings' source would ask the type of every field at each load.
"""

import os
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource


class Variables(PydanticBaseSettingsSource):
    """The texts of the variables that settings have."""

    def __call__(self) -> dict[str, str]:
        prefix = str(self.config.get("env_prefix")).lower()
        given = {name.lower(): text for name, text in os.environ.items() if text}
        return {name: given[prefix + name] for name in self.settings_cls.model_fields if prefix + name in given}

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """The value of one field, its key, and that it is no JSON; None if it is not set."""
        return self().get(field_name), field_name, False


class VariableSettings(BaseSettings):
    """Settings that come from what is given, then from variables, and from nowhere else."""

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: Any, **__: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, Variables(settings_cls)
