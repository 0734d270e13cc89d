"""Options that several commands share, each declared once; Typer reads them from the signature put together here."""

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from typing import Any


def option(name: str, annotation: Any, default: Any = None) -> Parameter:
    """Return one option, or an argument, as a command's signature holds it."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def with_options(shared: Sequence[Parameter]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Show these options behind the command's own; the command takes them in `**given`."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        def run(**given: Any) -> Any:
            return command(**given)

        whole = signature(command)
        own = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in whole.parameters.values() if each.name != "given"]
        shown = [*own, *shared]
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__signature__ = whole.replace(parameters=shown, return_annotation=None)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in shown}
        return run

    return decorated
