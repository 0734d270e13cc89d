"""The settings that the core's rules need, of the process's settings."""

from scheduler_service.config.settings import Settings
from scheduler_service.core.leader.state import CoreSettings


def core_settings(settings: Settings) -> CoreSettings:
    """Return the settings that the core's rules need."""
    return CoreSettings(
        pre_schedule_interval=settings.pre_schedule_interval,
        index_rebuild_interval=settings.index_rebuild_interval,
        lookahead_window=settings.lookahead_window,
        grace_period=settings.grace_period,
        loop_interval=settings.loop_interval,
        lost_after=settings.lost_after,
        redispatch_after=settings.redispatch_after,
        publish_window=None if settings.publish_window == "auto" else settings.publish_window,
        publish_ahead=settings.publish_ahead,
    )
