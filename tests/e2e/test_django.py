"""The example project for Django as its readers run it: `up` with the project's app, its commands, views and admin."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import make_url

from itinerary.client.results.runs import Run
from itinerary.client.sync import Client
from scheduler_service.runtime.run_file import REDIS_FILE
from tests.support.fresh_environment import CannotInstall, skip_without_a_registry, with_small_wheel
from tests.support.matrix import WHOLE
from tests.support.processes import PATIENCE, REPOSITORY, Child, project_env, wait_until
from tests.support.running import Running

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.postgres]

# The command line as an installation has it, a program of its own.
LAUNCHER = """#!/bin/sh
exec {python} -P -m scheduler_service.cli "$@"
"""
OLDEST = "django-4.2"
EXAMPLE = REPOSITORY / "workers" / "examples" / "django"
SETTINGS = """
from shop.settings import *

DATABASES["itinerary"] = {postgres!r}
INSTALLED_APPS += ["probe", "django_celery_beat"]
CELERY_BEAT_SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"
ITINERARY["COMMAND"] = {launcher!r}
"""
# The worker's main process has a connection when it forks its children.
PROBE = """
import os
from celery import shared_task, signals
from django.db import connections


def backend(seconds):
    with connections["itinerary"].cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid(), pg_sleep(%s)", [seconds])
        return cursor.fetchone()[0]


@signals.worker_init.connect
def started(**_):
    os.environ["BACKEND_OF_MAIN"] = str(backend(0))


@shared_task
def backends():
    return [int(os.environ["BACKEND_OF_MAIN"]), os.getpid(), backend(1), backend(0)]


@shared_task(bind=True)
def given(self, *args, **kwargs):
    headers = self.request.headers or {}
    return [args, kwargs, headers.get("tenant"), headers.get("periodic_task_name")]
"""
# Each program is one `manage.py shell`, as somebody would type it.
ROWS = """
from datetime import timedelta
from django.utils.timezone import now
from django_celery_beat import models
from tests.migrating.django_rows import shop

shop(models, "probe.tasks.given")
models.PeriodicTask.objects.filter(name="tiny").update(enabled=False)  # a beat would send nothing but that
two = models.IntervalSchedule.objects.create(every=2, period="seconds")
often = {"interval": two, "expires": now() + timedelta(hours=1), "priority": 2, "headers": '{"tenant": "a"}'}
later = models.ClockedSchedule.objects.create(clocked_time=now() + timedelta(hours=1))
for name, fields in (("often", often), ("one time", {"clocked": later, "one_off": True})):
    models.PeriodicTask.objects.create(
        name=name, task="probe.tasks.given", args='["x"]', kwargs='{"k": [1, null]}', **fields
    )
"""
STANDING = """
import json
from django_celery_beat.models import PeriodicTask

fields = ("enabled", "total_run_count", "last_run_at")
rows = PeriodicTask.objects.filter(name__in=["often", "one time", "nightly"]).values_list("name", *fields)
print(json.dumps({name: [*counts, str(last)] for name, *counts, last in rows}))
"""
PLACE = """
from django.db import transaction
from django.test import Client
from orders.models import Order

assert Client().post("/orders/", {"email": "a@example.org"}).status_code == 200
try:
    with transaction.atomic():
        assert Client().post("/orders/", {"email": "b@example.org"}).status_code == 200
        raise RuntimeError("rolled back")
except RuntimeError:
    print([order.email for order in Order.objects.all()])
"""
TRANSACTIONAL = """
from django.db import connection, connections, transaction
from itinerary import BadValue, enqueue_in
from itinerary.django import client, enqueue_on_commit

other = connections["itinerary"]
with transaction.atomic(using="itinerary"):
    kept = enqueue_in(other, "orders.tasks.report", queue="default")
try:
    with transaction.atomic(using="itinerary"):
        dropped = enqueue_in(other, "orders.tasks.report")
        raise RuntimeError("rolled back")
except RuntimeError:
    pass
try:
    enqueue_in(connection, "orders.tasks.report")
except BadValue as exc:
    refused = exc.field
counted = []
for breaks in (False, True):
    try:
        with transaction.atomic(using="itinerary"):
            enqueue_on_commit("orders.tasks.report", using="itinerary", queue="named")
            counted.append(len(client().runs(queue="named").items))
            assert not breaks
    except AssertionError:
        pass
    counted.append(len(client().runs(queue="named").items))
import json
print(json.dumps([kept, dropped, refused, counted]))
"""
REUSED = """
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.test import override_settings
from itinerary import BadValues
from itinerary.django import client, enqueue_on_commit
from orders.tasks import report

given = {}
with transaction.atomic():
    for number in range(3):
        given["number"] = number
        enqueue_on_commit(report.s().set(countdown=3600), kwargs=given, queue="reused")
    try:
        enqueue_on_commit("t", [{1}])
    except BadValues as exc:
        print(exc.errors[0].field)
with override_settings(ITINERARY=["x"]):
    try:
        client()
    except ImproperlyConfigured as exc:
        print(exc)
print(sorted(run.kwargs["number"] for run in client().runs(queue="reused").items))
"""
HANGING = """
import logging, socket, time
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.test import override_settings
from itinerary import NoAnswer
from itinerary.django import client, enqueue_on_commit
from itinerary.django.settings import seconds
from orders.models import Order

said = []
handler = logging.Handler()
handler.emit = lambda record: said.append((record.name, record.getMessage()))
logging.getLogger("itinerary.django").addHandler(handler)
logging.getLogger("django.db.backends.base").addHandler(handler)
assert seconds("ON_COMMIT_TIMEOUT") == 5
hangs = socket.create_server(("127.0.0.1", 0))
began = time.monotonic()
with override_settings(ITINERARY={"URL": f"http://127.0.0.1:{hangs.getsockname()[1]}", "ON_COMMIT_TIMEOUT": 0.5}):
    for robust in (True, False):
        try:
            with transaction.atomic():
                Order.objects.create(email=f"{robust}@example.org")
                enqueue_on_commit("orders.tasks.report", [{"password": "secret"}], idempotency_key="one", robust=robust)
            assert robust
        except NoAnswer:
            assert not robust
assert 1 <= time.monotonic() - began < 9, "twice the default would be 10 seconds"
assert Order.objects.filter(email__in=["True@example.org", "False@example.org"]).delete()[0] == 2
assert [name for name, _ in said] == ["itinerary.django", "django.db.backends.base", "itinerary.django"], said
assert "the run of orders.tasks.report that it was to enqueue is not confirmed: no answer" in said[0][1], said
assert "idempotency key one" in said[0][1]
assert not any("secret" in message for _, message in said)
with override_settings(ITINERARY={"ON_COMMIT_TIMEOUT": "5s"}):
    try:
        enqueue_on_commit("t")
    except ImproperlyConfigured as exc:
        print(exc)
"""
FORKED = """
import os
from itinerary.django import client

before = client()
assert before.status()["leader"]
for child in range(3):
    if os.fork() == 0:
        assert client() is not before
        ids = {client().enqueue("orders.tasks.report", run_at="2999-01-01T00:00:00Z")["run_id"] for _ in range(10)}
        os._exit(0 if len(ids) == 10 and client() is client() else 1)
print([os.waitstatus_to_exitcode(os.wait()[1]) for child in range(3)], client() is before)
"""
ADMIN = """
from django.contrib.auth.models import Permission, User
from django.test import Client, override_settings
from itinerary.django.settings import setting

URL = setting("URL")
boss = User.objects.create_superuser("boss")
clerk = User.objects.create_user("clerk", is_staff=True)
viewer = User.objects.create_user("viewer", is_staff=True)
viewer.user_permissions.add(*Permission.objects.filter(codename__in=["view_job", "view_run"]))
seen = {}
for user in (boss, clerk, viewer):
    browser = Client()
    browser.force_login(user)
    seen[user.username] = [browser.get(f"/admin/itinerary/{name}/").status_code for name in ("job", "run")]
page = browser.get("/admin/itinerary/job/?q=now").content.decode()
texts = ("orders.now", "orders.tasks.report", "every 1m", "/jobs/orders.now\\"", f'<a href="{URL}">Open the dashboard')
seen["jobs"] = [text in page for text in texts]
browser.force_login(boss)
seen["changes"] = [browser.post(f"/admin/itinerary/job/{page}").status_code for page in ("add/", "orders.now/delete/")]
browser.force_login(viewer)
page = browser.get("/admin/itinerary/run/?state=nonsense").content.decode()
seen["refused"] = "state" in page.partition('class="errornote">')[2][:200]
with override_settings(ITINERARY={"URL": "http://127.0.0.1:9"}):
    away = browser.get("/admin/itinerary/run/")
    seen["away"] = [away.status_code, "no answer from the API" in away.content.decode()]
import json, socket, time
from itinerary.django import admin
admin._PATIENCE = 0.2  # a client's own is 10 seconds
silent = socket.create_server(("127.0.0.1", 0))
began = time.monotonic()
with override_settings(ITINERARY={"URL": f"http://127.0.0.1:{silent.getsockname()[1]}"}):
    seen["silent"] = [browser.get("/admin/itinerary/run/").status_code, time.monotonic() - began < 9]
print(json.dumps(seen))
"""


class Project:
    """A copy of the example, beside a running service."""

    def __init__(self, folder: Path, python: str, env: dict[str, str]) -> None:
        self.folder, self.python, self.env = folder, python, env

    def manage(self, *words: str, status: int = 0, **env: str) -> str:
        """What one command of manage.py prints."""
        command = [self.python, "manage.py", *words]
        ended = subprocess.run(command, cwd=self.folder, env=self.env | env, capture_output=True, text=True)
        assert ended.returncode == status, ended.stdout + ended.stderr
        return ended.stdout + (ended.stderr if status else "")

    def shell(self, program: str) -> str:
        return self.manage("shell", "-v", "0", "-c", program)


@pytest.fixture(scope="module", params=["own", *([OLDEST] if WHOLE else [])])
def python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The project's Python: this one with the newest Django, and in the whole matrix one with the oldest."""
    if request.param == "own":
        return sys.executable
    try:
        return with_small_wheel(tmp_path_factory, sys.executable, f"matrix-{OLDEST}.lock").python
    except CannotInstall as exc:
        skip_without_a_registry(exc)


@pytest.fixture(scope="module")
def service(python: str, tmp_path_factory: pytest.TempPathFactory, module_postgres_url: str) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("django") / "shop"
    shutil.copytree(EXAMPLE, folder)
    env = {"DJANGO_SETTINGS_MODULE": "local_settings", "ITINERARY_DATABASE_URL": module_postgres_url}
    url = make_url(module_postgres_url)
    postgres = {
        "ENGINE": "django.db.backends.postgresql", "NAME": url.database, "USER": url.username,
        "PASSWORD": url.password or "", "HOST": url.host or url.query.get("host"), "PORT": str(url.port or ""),
    }  # fmt: skip
    launcher = folder / "itinerary-of-service"
    launcher.write_text(LAUNCHER.format(python=sys.executable))
    launcher.chmod(0o755)
    (folder / "local_settings.py").write_text(SETTINGS.format(postgres=postgres, launcher=str(launcher)))
    (folder / "probe").mkdir()
    (folder / "probe" / "__init__.py").touch()
    (folder / "probe" / "tasks.py").write_text(PROBE)
    migrate = [python, "manage.py", "migrate", "-v", "0"]
    subprocess.run(migrate, cwd=folder, env=project_env(**env), check=True)
    with Running(folder / ".itinerary", "--app", "shop.celery:app", "--worker-python", python, **env) as running:
        yield running


@pytest.fixture(scope="module")
def project(service: Running, python: str) -> Project:
    env = project_env(
        DJANGO_SETTINGS_MODULE="local_settings",
        ITINERARY_API_URL=service.written["api_url"],
        ITINERARY_REDIS_URL="redis://127.0.0.1:9/0",  # the web part needs no Redis
    )
    return Project(service.data_dir.parent, python, env)


def test_an_order_that_is_rolled_back_enqueues_nothing(project: Project, service: Running) -> None:
    assert project.shell(PLACE).strip() == "['a@example.org']"
    with service.client() as client:
        (run,) = [run for run in client.all_runs() if run["task"] == "orders.tasks.confirm"]
        assert client.wait(run["run_id"], timeout=PATIENCE)["state"] == "completed"
    counted = "from orders.models import Order; print(Order.objects.filter(confirmed=True).count())"
    assert project.shell(counted).strip() == "1"


def test_a_run_is_enqueued_as_it_was_asked_for(project: Project) -> None:
    assert project.shell(REUSED).split("\n")[:3] == [
        "args.0",
        "ITINERARY must be a dictionary, not list",
        "[0, 1, 2]",
    ]


def test_a_service_that_hangs_holds_a_commit_no_longer_than_the_setting(project: Project) -> None:
    said = project.shell(HANGING).strip()
    assert (
        said == """ITINERARY["ON_COMMIT_TIMEOUT"] is '5s'; give seconds above 0 that enqueue_on_commit may take """
        "after the commit"
    )


def test_a_run_goes_with_the_transaction_of_the_database_that_is_named(project: Project, service: Running) -> None:
    kept, dropped, refused, counted = json.loads(project.shell(TRANSACTIONAL))
    with service.client() as client:
        assert client.wait(kept, timeout=PATIENCE)["state"] == "completed"
        assert dropped not in {run["run_id"] for run in client.all_runs()}
    assert refused == "connection_or_session"
    assert counted == [0, 1, 1, 1], "before and after a commit, before and after a rollback"


def test_each_forked_process_has_a_client_of_its_own(project: Project) -> None:
    assert project.shell(FORKED).strip() == "[0, 0, 0] True"


def test_no_process_of_a_pool_uses_a_connection_of_another(service: Running) -> None:
    with service.client() as client:
        ids = [run["run_id"] for run in client.enqueue_batch([{"task": "probe.tasks.backends"}] * 2)]
        (main, child, first, again), (_, other, second, _) = (
            client.wait(run_id, timeout=PATIENCE)["result"] for run_id in ids
        )
    assert child != other
    assert len({main, first, second}) == 3
    assert first == again


def test_jobs_beside_the_tasks_are_planned_applied_and_checked(project: Project, service: Running) -> None:
    planned = project.manage("itinerary", "plan", "--settings", "local_settings", "--no-color", "--source", "shop")
    assert "orders.now" in planned
    assert "orders.tasks.report" in planned
    project.manage("itinerary", "check", status=1)
    assert "no answer" in project.manage("itinerary", "check", status=2, ITINERARY_API_URL="http://127.0.0.1:9")
    project.manage("itinerary", "apply", "--yes")
    project.manage("itinerary", "check")
    with service.client() as client:
        assert {job.job_id for job in client.all_jobs()} == {"orders.now", "orders.tasks.report"}
        assert client.wait(client.trigger("orders.now").run_id, raises=True, timeout=PATIENCE).result == 0
    config = """
from local_settings import *
CELERY_BEAT_SCHEDULER = "celery.beat:PersistentScheduler"
CELERY_BEAT_SCHEDULE = {"hourly": {"task": "orders.tasks.report", "schedule": 3600}}
"""
    (project.folder / "beat_settings.py").write_text(config)
    moved = project.manage("itinerary", "import-beat", "--settings", "beat_settings")
    assert "hourly" in moved
    assert "1 can be moved, 0 cannot" in moved
    lost = 'from local_settings import *\nITINERARY["COMMAND"] = "no-such-command"\n'
    (project.folder / "lost_settings.py").write_text(lost)
    said = project.manage("itinerary", "--settings", "lost_settings", "import-beat", status=1)
    assert "the service's command 'no-such-command' is not found" in said


def test_the_admin_shows_both_lists_to_those_who_may_see_them(project: Project) -> None:
    project.manage("itinerary", "apply", "--yes")
    seen = json.loads(project.shell(ADMIN))
    assert seen == {
        "boss": [200, 200],
        "clerk": [403, 403],
        "viewer": [200, 200],
        "jobs": [True, True, True, True, True],
        "changes": [404, 404],
        "refused": True,
        "away": [200, True],
        "silent": [200, True],
    }


def test_the_projects_own_tests_pass_and_its_models_need_no_migration(project: Project) -> None:
    project.manage("test", "orders", "--settings", "shop.settings")
    assert "No changes detected" in project.manage("makemigrations", "--check", "--dry-run")
    wrong = {"ULR": "x", "TOKEN": 5, "URL": "127.0.0.1:8080", "ON_COMMIT_TIMEOUT": 0}
    (project.folder / "wrong_settings.py").write_text(f"from shop.settings import *\nITINERARY = {wrong}\n")
    said = project.manage("check", "--settings", "wrong_settings", status=1)
    assert "ITINERARY has an unknown name 'ULR'" in said
    assert 'Did you mean "URL"?' in said
    assert 'ITINERARY["TOKEN"] must be a text' in said
    assert 'ITINERARY["URL"] must begin with http://' in said
    assert 'ITINERARY["ON_COMMIT_TIMEOUT"] must be a number of seconds' in said


def test_rows_of_every_kind_move_in_from_django_celery_beat_and_back(project: Project, service: Running) -> None:
    project.shell(ROWS)
    place = ("--from-database", f"sqlite:///{project.folder / 'shop.sqlite3'}")
    shadow = json.loads(project.manage("itinerary", "shadow", *place, "--hours", "48", "--json"))["items"]
    assert {"nightly", "sun", "at new year", "off", "once", "bounded", "often", "one time"} <= {
        each["name"] for each in shadow
    }
    assert [each for each in shadow if any("please report" in found["why"] for found in each["differences"])] == []
    project.manage("itinerary", "import-beat", *place, "--apply", "--partly")
    with service.client() as client:
        soon = (datetime.now(UTC) + timedelta(seconds=8)).isoformat()
        client.patch_job("one-time", {"schedule": {"kind": "once", "at": soon}})
        for job_id, tenant, priority, name in (("often", "a", 2, "often"), ("one-time", None, 5, "one time")):
            (done,) = wait_until(lambda job=job_id: _completed(client, job), what=lambda: service.output)
            assert (done.result, done.priority) == ([["x"], {"k": [1, None]}, tenant, name], priority)
        assert "one time  last ran here" in project.manage("itinerary", "back-out")
        project.manage("itinerary", "back-out", "--apply")
        ran = client.runs(job_id="often", limit=1).items[0]
        assert [job.job_id for job in client.all_jobs() if "beat" in (job.source or "")] == []
    back = json.loads(project.shell(STANDING))
    assert back["one time"][:2] == [False, 1]
    assert back["nightly"] == [True, 0, "None"]
    assert datetime.fromisoformat(back["often"][2]) == ran.scheduled_at
    with Child(
        [project.python, "-m", "celery", "-A", "shop", "beat", "-l", "info"],
        env=project.env | {"ITINERARY_REDIS_URL": (service.data_dir / REDIS_FILE).read_text().strip()},
        cwd=project.folder,
    ) as beat:
        beat.wait_for_line("Sending due task often")
        assert "Sending due task one time" not in beat.output


def _completed(client: Client, job_id: str) -> list[Run]:
    return client.runs(job_id=job_id, state="completed", limit=1).items
