"""A message as lines of plain text, for people."""

from collections.abc import Mapping
from typing import Any


def lines_of(body: Mapping[str, Any]) -> list[str]:
    """Return the text, and the details of each item."""
    lines = [f"{body['text'][:1].upper()}{body['text'][1:]}.", ""]
    for item in body["data"]["items"]:
        lines += [
            f"* {item.get('job_id') or item.get('task') or item.get('monitor_id') or body['type']}",
            *_details(item),
            "",
        ]
    if body["data"]["more"]:
        lines += [f"and {body['data']['more']} more", ""]
    return lines


def _details(item: Mapping[str, Any]) -> list[str]:
    error = item.get("error") or {}
    if item["count"] == 1 or item["first_at"] == item["last_at"]:
        when = f"at {item['last_at']}"
    else:
        when = f"{item['count']} times from {item['first_at']} to {item['last_at']}"
    found = [f"{when}, over since" if item.get("over") else when]
    if item.get("run_id"):
        found.append(f"run {item['run_id']}")
    if item.get("reason"):
        found.append(f"because {item['reason']}")
    if error.get("type"):
        found.append(f"{error['type']}: {error.get('message') or ''}")
    if item.get("holder"):
        found.append(f"term {item['term']} of {item['holder']}, last confirmed {item['confirmed_at']}")
    return [f"    {' '.join(line.split())}" for line in found]
