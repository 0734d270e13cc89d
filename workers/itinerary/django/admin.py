"""The admin's pages of jobs and runs: read only, asked of the API, each row with a link to the dashboard."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path

from itinerary.client.results import Answer
from itinerary.client.sync import Client
from itinerary.django.models import Job, Run
from itinerary.django.settings import setting
from itinerary.protocol.errors import ItineraryError
from itinerary.protocol.instants import parse_instant, to_datetime

_PAGE: Final = 50
_PATIENCE: Final = 4.0  # seconds: somebody waits for the page
_SCHEDULES: Final = {
    "cron": "{expr}",
    "interval": "every {every}",
    "hourly": "each hour at {minute}",
    "once": "{at}",
    "rrule": "{rrule}",
}


class _ReadOnly(admin.ModelAdmin):
    """A list of the service's; nothing is added, changed or deleted here."""

    columns: tuple[tuple[str, Callable[[dict[str, Any]], Any]], ...]
    filters: tuple[tuple[str, str], ...]
    fetch: Callable[..., Answer]

    def get_urls(self) -> list[Any]:
        name = f"{self.opts.app_label}_{self.opts.model_name}_changelist"
        return [path("", self.admin_site.admin_view(self.changelist_view), name=name)]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """One page of the list that the filters and the cursor of the address ask for."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        asked = {name: request.GET[name] for name, _ in self.filters if request.GET.get(name)}
        page: Mapping[str, Any] = {"items": []}
        error = None
        try:
            with Client(setting("URL") or "", setting("TOKEN"), timeout=_PATIENCE, retries=0) as client:
                page = self.fetch(client, limit=_PAGE, cursor=request.GET.get("cursor"), **asked).body
        except ItineraryError as exc:
            error = str(exc)
        following = request.GET.copy()
        following["cursor"] = page.get("next_cursor") or ""
        context = {
            **self.admin_site.each_context(request),
            "title": f"{self.opts.verbose_name_plural.capitalize()} of Itinerary",
            "opts": self.opts,
            "dashboard": _dashboard(),
            "columns": [title for title, _ in self.columns],
            "rows": [(self._link(item), [read(item) for _, read in self.columns]) for item in page["items"]],
            "filters": [(name, label, asked.get(name, "")) for name, label in self.filters],
            "next": following.urlencode() if page.get("next_cursor") else None,
            "error": error,
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/itinerary/list.html", context)

    def _link(self, item: dict[str, Any]) -> str:
        name = self.opts.model_name
        return f"{_dashboard()}/{name}s/{quote(item[f'{name}_id'], safe='')}"


@admin.register(Job)
class JobAdmin(_ReadOnly):
    """The jobs, with their next and last runs."""

    fetch = staticmethod(partial(Client.jobs, with_runs=True))
    filters = (("q", "Search"), ("tag", "Tag"))
    columns = (
        ("Job", lambda job: job["job_id"]),
        ("Task", lambda job: job["task"]),
        ("Schedule", lambda job: _schedule(job["schedule"])),
        ("Next run", lambda job: _moment(job.get("next_run_at"))),
        ("Last run", lambda job: (job.get("last_run") or {}).get("state", "")),
    )


@admin.register(Run)
class RunAdmin(_ReadOnly):
    """The runs, newest first."""

    fetch = staticmethod(Client.runs)
    filters = (("job_id", "Job"), ("state", "State"), ("queue", "Queue"))
    columns = (
        ("Run", lambda run: run["run_id"]),
        ("Task", lambda run: run["task"]),
        ("State", lambda run: run["state"]),
        ("Due", lambda run: _moment(run["due_at"])),
        ("Ended", lambda run: _moment(run.get("finished_at"))),
        ("Error", lambda run: "{type}: {message}".format_map(run["error"])[:120] if run.get("error") else ""),
    )


def _dashboard() -> str:
    return (setting("DASHBOARD_URL") or setting("URL") or "").rstrip("/")


def _schedule(body: Mapping[str, Any]) -> str:
    text = _SCHEDULES.get(body["kind"], "{kind}").format_map(body)
    if body.get("dialect"):
        text = f"{text} ({body['dialect']})"
    return text if body.get("timezone") in (None, "UTC") else f"{text}, {body['timezone']}"


def _moment(text: str | None) -> datetime | str:
    return to_datetime(parse_instant(text)) if text else ""
