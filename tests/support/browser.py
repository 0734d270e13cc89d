"""A real Chromium without a window, driven over the pipe of its DevTools protocol: no driver, no port, no download."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import threading
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.support.processes import PATIENCE, wait_until

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS: Final = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--no-proxy-server", "--remote-debugging-pipe",
)  # fmt: skip
_SHIFTS: Final = """(() => {
  const moved = [];
  const name = (node) => {
    const element = node?.nodeType === 1 ? node : node?.parentElement;
    return element ? `${element.localName}#${element.id}.${element.className.baseVal ?? element.className}` : "removed";
  };
  const box = ({x, y, width, height}) => `${x},${y} ${width}x${height}`;
  const told = (one) => `${name(one.node)}: ${box(one.previousRect)} to ${box(one.currentRect)}`;
  const keep = (entries) => {
    for (const {value, hadRecentInput, sources} of entries)
      if (!hadRecentInput) moved.push([value, ...sources.map(told)]);
  };
  const observer = new PerformanceObserver((list) => keep(list.getEntries()));
  observer.observe({type: "layout-shift", buffered: true});
  const frame = () => new Promise(requestAnimationFrame);
  window.shifts = () => frame().then(frame).then(() => { keep(observer.takeRecords()); return moved; });
})()"""
_LEFT: Final = "Inspected target navigated or closed"


def find_browser() -> str | None:
    """The Chromium of this machine, or what ITINERARY_TEST_BROWSER names; None where there is none."""
    named = os.environ.get("ITINERARY_TEST_BROWSER")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser(AbstractContextManager["Browser"]):
    """One browser with one page; `complaints` is what the page's console and its security policy said."""

    def __init__(self, program: str, folder: Path) -> None:
        self.complaints: list[str] = []
        self._answers: dict[int, dict[str, Any]] = {}
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self._width: int | None = None
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        self._process = _started(program, folder, theirs_in, theirs_out)
        self._reader = threading.Thread(target=self._read, name="browser reader", daemon=True)

    def __enter__(self) -> Self:
        self._reader.start()
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        self._call("Page.addScriptToEvaluateOnNewDocument", source=_SHIFTS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(PATIENCE)
        os.close(self._out)
        self._reader.join(PATIENCE)
        os.close(self._in)

    def view(self, width: int, *, dark: bool = False, height: int = 1000) -> None:
        """Look through a window of this width, in the light or the dark theme."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._call("Emulation.setDeviceMetricsOverride", **metrics)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[theme])
        self._width = width
        self._await_width()

    def _await_width(self) -> None:
        """Until the page is laid out for this window: a resize is answered before it is carried out."""
        shown = "Math.round(visualViewport.width * visualViewport.scale)"
        wait_until(lambda: self._width in (None, self._read_from(shown)), what=f"a window {self._width} wide")

    def move_to(self, timezone: str) -> None:
        """Let the browser's clocks be those of a zone."""
        self._call("Emulation.setTimezoneOverride", timezoneId=timezone)

    def open(self, url: str) -> None:
        """Go to a page and wait until it is there."""
        self._call("Page.navigate", url=url)
        self.wait_for("true")
        self._await_width()

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def _read_from(self, script: str) -> Any:
        """The value of an expression that changes nothing; the next page answers where this one leaves before it."""
        while True:
            try:
                return self.run(script)
            except AssertionError as exc:
                if _LEFT not in str(exc):
                    raise

    def wait_for(self, condition: str, timeout: float = PATIENCE) -> None:
        """Until an expression in the page is true, and the page, which a click may have led to, is there as a whole."""
        there = f"Boolean(document.readyState === 'complete' && ({condition}))"
        wait_until(lambda: self._read_from(there), timeout, lambda: f"{condition}; {self.complaints}")

    def click(self, selector: str) -> None:
        """Click the middle of an element, as a hand with a mouse would; again, if a refresh moved it just then."""
        wait_until(lambda: self._clicked(selector), what=lambda: f"{selector} to stand still; {self.complaints}")

    def _clicked(self, selector: str) -> bool:
        """Click where the element is; false if the click came to something else and the element is elsewhere now."""
        there, found = f"document.querySelector({json.dumps(selector)})", json.dumps(selector)
        self.wait_for(there)
        middle = (
            f"(e => {{ e?.scrollIntoView({{block: 'center'}}); const r = e?.getBoundingClientRect();"
            f" return r && [r.x + r.width / 2, r.y + r.height / 2]; }})({there})"
        )
        place = self.run(middle)
        if place is None:
            return False
        self.run(
            "(window.hit = false, document.addEventListener('click', ({target}) => { window.hit ="
            f" Boolean(target.closest({found}) || target.closest('label')?.control?.matches({found})); }},"
            " {capture: true, once: true}))"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)
        has_missed = self._read_from("window.hit === false")  # another page, to which the click led, knows of none
        return not has_missed or self._read_from(middle) == place

    def fill(self, selector: str, value: str) -> None:
        """Type a value into a field as a hand does: the field has the focus, so that no refresh takes it away."""
        self.wait_for(f"document.querySelector({json.dumps(selector)})")
        field, typed = json.dumps(selector), json.dumps(value)
        self.run(
            f"(field => {{ field.focus(); field.value = {typed};"
            " for (const kind of ['input', 'change']) field.dispatchEvent(new Event(kind, {bubbles: true}));"
            f" }})(document.querySelector({field}))"
        )

    def shifts(self) -> list[list[Any]]:
        """Each layout shift up to the next frame, but those of an input: its value, and what moved whence."""
        found: list[list[Any]] = self.run("window.shifts()")
        return found

    def text(self, selector: str) -> str:
        """What a reader sees of an element."""
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def screenshot(self, path: Path, *, whole: bool = True) -> Path:
        """A picture of the page, all of its length or what the window shows."""
        shot = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
        return path

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        answer = wait_until(lambda: self._answers.pop(number, None), what=f"an answer to {method}", every=0.005)
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def _read(self) -> None:
        rest = b""
        while part := _part(self._in):
            *messages, rest = (rest + part).split(b"\0")
            for text in messages:
                self._hear(json.loads(text))

    def _hear(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._answers[message["id"]] = message
        elif message["method"] == "Log.entryAdded":
            self.complaints.append(message["params"]["entry"]["text"])
        elif message["method"] == "Runtime.exceptionThrown":
            self.complaints.append(str(message["params"]["exceptionDetails"]))


def _part(descriptor: int) -> bytes:
    with suppress(OSError):
        return os.read(descriptor, 1 << 20)
    return b""


def _started(program: str, folder: Path, reads: int, writes: int) -> subprocess.Popen[bytes]:
    """The browser with its pipe on descriptors 3 and 4, where it expects them."""
    wrapper = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"'
    command = [program, *_FLAGS, f"--user-data-dir={folder}", "about:blank"]
    process = subprocess.Popen(
        ["/bin/bash", "-c", wrapper, "browser", str(reads), str(writes), *command],
        pass_fds=(reads, writes), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(reads)
    os.close(writes)
    return process
