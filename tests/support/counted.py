"""Pages and their count of what is planned, which no request waits long for."""

from fastapi.testclient import TestClient

from tests.support.processes import wait_until


def counted_page(api: TestClient, path: str) -> str:
    """The page once what is planned is counted."""

    def counted() -> str | None:
        text = api.get(path).text
        return None if "Counting what is planned" in text else text

    return wait_until(counted, what="the plan to be counted") or ""
