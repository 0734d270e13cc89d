"""Find the jobs of a Celery app: what the decorators of its modules declared, named by the tasks of the app.

Imports the app's modules as a worker does. Needs Celery, which it loads when it is called; contacts nothing.
"""

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from itinerary.jobs.body import Body
from itinerary.jobs.schedule import Declared, declared
from itinerary.jobs.specs import in_zone
from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.identity import JOB_ID

if TYPE_CHECKING:
    from celery import Celery

_NO_TASK: Final = "it decorates no task of a Celery app; put it above @app.task or @shared_task"


def collect(app: "Celery") -> list[Body]:
    """Return the JSON of every job that is declared beside a task of this app, as `POST /jobs/apply` takes it.

    Loads the modules that the app names (`include`, `imports`, `autodiscover_tasks`). Each body has its `place`, the
    file and line of its decorator; `placed(message, bodies)` puts places into an error of the API. Raises BadValues
    that name file and line.
    """
    app.loader.import_default_modules()
    app.finalize()
    bodies, errors = [], []
    tasks = _by_code(app)
    for each in _still_there():
        try:
            if (task := _task_of(each, app, tasks)) is not None:
                bodies.append(_body(each, task, app))
        except BadValue as exc:
            errors.append(exc)
    errors += _duplicates(bodies)
    if errors:
        raise BadValues(errors)
    return bodies


def _still_there() -> list[Declared]:
    """Forget what the program has dropped."""
    declared[:] = [each for each in declared if each.target() is not None]
    return list(declared)


def _body(each: Declared, task: Any, app: "Celery") -> Body:
    job_id = task.name if each.job_id is None else each.job_id
    fields = dict(each.fields)
    if (zone := _zone_of(app)) is not None:
        fields["schedule"] = in_zone(fields["schedule"], zone)
    body = Body(each.place, {"job_id": job_id, "task": task.name, **fields})
    if JOB_ID.fullmatch(job_id) is None:
        raise BadValue(f"{each.place}: job_id", job_id, "the task's name cannot be a job's id: give job_id=...")
    _check_arguments(task, body)
    return body


def _check_arguments(task: Any, body: Body) -> None:
    """Call nothing, but bind the arguments as a call would; a task with `typing=False` checks its own."""
    if not task.typing:
        return
    try:
        inspect.signature(task.run).bind(*body.get("args", ()), **body.get("kwargs", {}))
    except TypeError as exc:
        advice = f"the task {task.name} cannot be called like that ({exc}); give args=[...] or kwargs={{...}}"
        raise BadValue(body.named, None, advice) from exc


def _duplicates(bodies: list[Body]) -> list[BadValue]:
    first: dict[str, Body] = {}
    found = []
    for body in bodies:
        known = first.setdefault(body["job_id"], body)
        if known is not body:
            advice = f"duplicate job id, also at {known.place}; give each an id of its own: job_id=..."
            found.append(BadValue(f"{body.place}: job_id", body["job_id"], advice))
    return found


def _zone_of(app: "Celery") -> str | None:
    zone: Any = app.conf.timezone
    return (getattr(zone, "key", None) or str(zone)) if zone else None


def _task_of(each: Declared, app: "Celery", tasks: Mapping[int, Any]) -> Any:
    """The app's task, or None if the job belongs to a task of another app; BadValue if it belongs to none."""
    from celery.exceptions import NotRegistered

    try:
        return _found(each, app, tasks)
    except NotRegistered as exc:  # a shared task, asked of the current app, which lacks it
        return app.tasks.get(str(exc.args[0]))


def _found(each: Declared, app: "Celery", tasks: Mapping[int, Any]) -> Any:
    target = each.target()
    if isinstance(target, type):
        of_class = _of_class(target, app)
        if of_class is None and not any(_of_class(target, other) for other in _apps()):
            raise BadValue(f"{each.place}: task", target.__name__, "register the class: app.register_task(...)")
        return of_class
    if callable(getattr(target, "apply_async", None)):
        named = app.tasks.get(target.name)  # a function may be several tasks
        return named if named is not None and set(_codes(named)) & set(_codes(target)) else None
    if id(target) not in tasks and not any(id(target) in _by_code(other) for other in _apps()):
        raise BadValue(f"{each.place}: task", getattr(target, "__qualname__", target), _NO_TASK)
    return tasks.get(id(target))


def _by_code(app: "Celery") -> dict[int, Any]:
    """The app's tasks by the functions that they run. Celery shares tasks: several apps may have a copy each."""
    return {code: task for task in app.tasks.values() for code in _codes(task)}


def _codes(task: Any) -> Iterator[int]:
    """The function that a task runs, and those below its other decorators."""
    function = getattr(task, "__wrapped__", None) or task.run
    while function is not None:
        function = getattr(function, "__func__", function)
        yield id(function)
        function = getattr(function, "__wrapped__", None)


def _of_class(kind: type, app: "Celery") -> Any:
    """The task that is registered with this class; `attach` replaces it by a subclass of the same name."""
    name = (kind.__module__, kind.__qualname__)
    own = (task for task in app.tasks.values() if isinstance(task, kind))
    return next((task for task in own if (type(task).__module__, type(task).__qualname__) == name), None)


def _apps() -> Any:
    state: Any = import_module("celery._state")
    return state._get_active_apps()  # the only list of apps that there is
