"""The manual as the dashboard serves it: each page with its headings, links of the site, nothing else of the disk."""

import hashlib
import html
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from scheduler_service.api.pages.manual import contents
from scheduler_service.api.pages.markdown import render
from scheduler_service.config.settings import Settings
from tests.support.pages import CHAPTERS, INDEX, anchors, headings

NAMES = [path.stem for path in CHAPTERS]
READERS = {"limited": "viewer", "boss": "admin", "shop": "enqueuer"}


def served(page: Path) -> str:
    return "/manual" if page == INDEX else f"/manual/{page.stem}"


def test_each_page_is_served_with_its_headings_and_the_contents_at_its_side(api: TestClient) -> None:
    for page in (INDEX, *CHAPTERS):
        answer = api.get(served(page))
        assert answer.status_code == 200, page
        article = answer.text.partition("<article>")[2].partition("</article>")[0]
        assert re.findall(r'<h\d id="([^"]*)"', article) == anchors(page)
        assert f"<title>{html.escape(headings(page)[0])} · Manual · Itinerary</title>" in answer.text
        aside = answer.text.partition('<nav class="contents"')[2].partition("</nav>")[0]
        assert [name for name in NAMES if f'href="/manual/{name}"' not in aside] == [], page
        assert f'href="{served(page)}" aria-current="page"' in aside


def test_every_link_of_each_page_leads_to_a_page_with_that_heading(api: TestClient) -> None:
    texts = {served(page): api.get(served(page)).text for page in (INDEX, *CHAPTERS)}
    links = {
        (address, html.unescape(target))
        for address, text in texts.items()
        for target in re.findall(r'(?:href|src)="(?!https?:)([^"]+)"', text)
    }
    assert len(links) > 500
    for address, target in links:
        path, _, anchor = target.partition("#")
        there = path or address
        if there not in texts:
            answer = api.get(there, follow_redirects=False)
            assert answer.status_code in (200, 303), f"{target} of {address}"
            texts[there] = answer.text if answer.headers.get("content-type", "").startswith("text/") else ""
        assert not anchor or f'id="{anchor}"' in texts[there], f"{target} of {address}"


def test_the_contents_have_the_order_of_the_index() -> None:
    ordered = [entry.name for group in contents() for entry in group.entries]
    assert sorted(ordered) == sorted(NAMES)
    assert ordered[:2] == ["start", "how-it-works"]
    assert contents()[0].title == "Begin"


def test_each_page_leads_to_the_next_one(api: TestClient) -> None:
    ordered = [entry for group in contents() for entry in group.entries]
    assert 'First: <a href="/manual/start">' in api.get("/manual").text
    assert f'Next: <a href="{ordered[1].address}">{ordered[1].title}</a>' in api.get("/manual/start").text
    assert "Next: " not in api.get(ordered[-1].address).text


@pytest.mark.parametrize(
    "path",
    ["/manual/nowhere", "/manual/README", "/manual/start.md", "/manual/..%2Fsettings", "/manual/pictures/..%2Fapi.md"],
)
def test_what_is_no_page_of_the_manual_is_not_found(api: TestClient, path: str) -> None:
    answer = api.get(path, headers={"Accept": "text/html"})
    assert answer.status_code == 404
    assert "To the overview" in answer.text


def test_pictures_are_served_as_what_they_are(api: TestClient) -> None:
    for name, kind in (("overview.png", "image/png"), ("burst.svg", "image/svg+xml")):
        answer = api.get(f"/manual/pictures/{name}")
        assert (answer.status_code, answer.headers["content-type"]) == (200, kind)


def test_whoever_may_see_the_dashboard_may_read_it_and_nobody_else(
    client_of: Callable[[Settings], TestClient], settings: Settings
) -> None:
    lines = [f"{name}:{role}:{hashlib.sha256(name.encode()).hexdigest()}" for name, role in READERS.items()]
    lines[0] += ":jobs=shop."
    tokens = Settings(api_tokens=",".join(lines)).api_tokens  # type: ignore[arg-type]  # a text is read
    client = client_of(settings.model_copy(update={"api_tokens": tokens}))
    for path in ("/manual", "/manual/start", "/manual/pictures/overview.png"):
        assert client.get(path).status_code == 401
        for name, role in READERS.items():
            answer = client.get(path, headers={"Authorization": f"Bearer {name}"})
            assert answer.status_code == (403 if role == "enqueuer" else 200)


@pytest.mark.parametrize("path", ["/", "/failures", "/workers", "/load", "/explain", "/new-job", "/docs"])
def test_pages_link_to_the_manual_where_it_helps(api: TestClient, path: str) -> None:
    page = api.get(path).text
    body = page if path == "/docs" else page.partition("</header>")[2]  # the others lead to it from their header too
    linked = re.findall(r'href="(/manual/[^"]+)"', body)
    assert linked
    for target in linked:
        address, _, anchor = target.partition("#")
        assert not anchor or f'id="{anchor}"' in api.get(address).text


def test_no_html_of_a_page_passes_and_a_link_out_of_the_manual_is_text() -> None:
    text = "# A\n\n<script>x</script> [file](../x.py) [page](b.md#c) [out](https://example.org) [js](javascript:x)\n"
    shown = render(text, lambda link: "/manual/b#c" if link == "b.md#c" else None).html
    assert "&lt;script&gt;" in shown
    assert '<span title="A file of the repository">file</span>' in shown
    assert '<a href="/manual/b#c">page</a>' in shown
    assert '<a href="https://example.org" rel="noopener noreferrer">out</a>' in shown
    assert 'href="javascript:' not in shown


def test_a_table_names_its_columns_in_each_cell_and_a_diagram_of_states_is_a_table() -> None:
    table = "| `x` | y |\n|---|---|\n| 1 | 2 |\n"
    diagram = "```mermaid\nstateDiagram-v2\n    [*] --> a\n    a --> b: go\n```\n"
    shown = render(f"# A\n\n{table}\n{diagram}", lambda link: None).html
    assert '<td data-label="x">1</td>' in shown
    assert '<td data-label="y">2</td>' in shown
    assert '<td data-label="from"><code>a</code></td>' in shown
    assert "mermaid" not in shown
