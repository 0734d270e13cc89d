"""The HTTP task's call: where it may go, how long it may take, how much it brings back."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from itinerary.net.safe_http import CallFailed, CallRefused, is_public
from itinerary.worker.http_call import ALLOW_PRIVATE, call


class Handler(BaseHTTPRequestHandler):
    """Answers by path; what it was sent is kept in `server.seen`."""

    protocol_version = "HTTP/1.1"
    server: Any

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length).decode()
        self.server.seen.append((self.command, self.path, dict(self.headers), body))
        match self.path.partition("?")[0].strip("/").split("/"):
            case ["to", status, *rest]:
                self.respond(int(status), b"", {"Location": "/" + "/".join(rest)})
            case ["away"]:
                self.respond(302, b"", {"Location": self.server.elsewhere})
            case ["long"]:
                self.respond(200, b"z" * 100_000)
            case ["status", status]:
                self.respond(int(status), b"because")
            case ["drip"]:
                self.drip()
            case _:
                self.respond(200, b"hello", {"X-Told": "yes"})

    do_GET = do_POST = do_PUT = answer

    def respond(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        while not self.server.over.wait(0.05):
            try:
                self.wfile.write(b".")
            except OSError:
                return

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def server() -> Iterator[Any]:
    running: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.seen, running.over, running.elsewhere = [], threading.Event(), ""
    running.handle_error = lambda *_: None  # a client that was cut off is no error here
    running.url = f"http://127.0.0.1:{running.server_port}"
    thread = threading.Thread(target=running.serve_forever, args=(0.01,))
    thread.start()
    yield running
    running.over.set()
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOW_PRIVATE, "1")


def get(url: str, timeout: float = 5.0, **headers: str) -> dict[str, Any]:
    return call(url, "GET", headers, None, timeout)


@pytest.mark.usefixtures("allowed")
def test_an_answer_has_status_headers_and_text(server: Any) -> None:
    answer = get(f"{server.url}/path?q=1")
    assert (answer["status"], answer["body"], answer["cut"]) == (200, "hello", False)
    assert answer["headers"]["x-told"] == "yes"
    assert server.seen[0][:2] == ("GET", "/path?q=1")


@pytest.mark.usefixtures("allowed")
def test_a_body_of_values_is_sent_as_json(server: Any) -> None:
    call(server.url, "post", {"X-Token": "t"}, {"a": [1]}, 5.0)
    method, _, headers, body = server.seen[0]
    assert (method, json.loads(body)) == ("POST", {"a": [1]})
    assert (headers["Content-Type"], headers["X-Token"]) == ("application/json", "t")


@pytest.mark.usefixtures("allowed")
def test_a_long_answer_is_cut(server: Any) -> None:
    answer = get(f"{server.url}/long")
    assert (len(answer["body"]), answer["cut"]) == (32 * 1024, True)


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize("status", [404, 503])
def test_an_error_status_fails_the_call(server: Any, status: int) -> None:
    with pytest.raises(CallFailed, match=f"answered {status}: because"):
        get(f"{server.url}/status/{status}?token=hunter2")


@pytest.mark.usefixtures("allowed")
def test_errors_never_show_path_or_query(server: Any) -> None:
    with pytest.raises(CallFailed) as failure:
        get(f"{server.url}/status/500?token=hunter2")
    assert "hunter2" not in str(failure.value)


@pytest.mark.usefixtures("allowed")
def test_redirects_are_followed_a_few_times(server: Any) -> None:
    assert get(f"{server.url}/to/302/to/307/end")["body"] == "hello"
    with pytest.raises(CallFailed, match="more than 5 times"):
        get(server.url + "/to/302" * 6 + "/end")


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize(
    "location", ["http://[::1", "//[x", "http://h:99999/", "http://h:x/", "ftp://h/", "http://u:p@h/", "http://a b/"]
)
def test_a_redirect_to_what_cannot_be_called_is_the_call_s_clear_failure(server: Any, location: str) -> None:
    server.elsewhere = location
    with pytest.raises(CallFailed, match=r"^http://127\.0\.0\.1 redirected to what cannot be called: url ") as failed:
        get(f"{server.url}/away")
    assert failed.value.status == 302


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize(("status", "method", "body"), [(303, "GET", ""), (302, "GET", ""), (307, "POST", '"x"')])
def test_a_redirected_post_keeps_its_body_only_where_the_status_says_so(
    server: Any, status: int, method: str, body: str
) -> None:
    call(f"{server.url}/to/{status}/end", "POST", {}, '"x"', 5.0)
    assert (server.seen[1][0], server.seen[1][3]) == (method, body)


@pytest.mark.usefixtures("allowed")
def test_secrets_do_not_follow_a_redirect_to_another_host(server: Any) -> None:
    server.elsewhere = f"http://localhost:{server.server_port}/end"
    secrets = {"Authorization": "Bearer x", "Cookie": "c", "X-Api-Key": "k", "X-Auth-Token": "t", "DD-API-KEY": "d"}
    get(f"{server.url}/away", Accept="*/*", **secrets)
    assert secrets.keys() <= server.seen[0][2].keys()
    assert not secrets.keys() & server.seen[1][2].keys()
    assert server.seen[1][2]["Accept"] == "*/*"


@pytest.mark.parametrize("address", ["3fff::1", "192.88.99.1", "::ffff:192.88.99.1"])
def test_reserved_addresses_are_not_public_on_any_python(address: str) -> None:
    assert not is_public(address)


@pytest.mark.usefixtures("allowed")
def test_a_server_that_drips_is_cut_off_at_the_deadline(server: Any) -> None:
    with pytest.raises(CallFailed, match="in time"):
        get(f"{server.url}/drip", timeout=0.3)


@pytest.mark.usefixtures("allowed")
def test_a_server_that_says_nothing_is_cut_off_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(CallFailed, match="in time"):
        get(f"http://127.0.0.1:{silent.getsockname()[1]}/", timeout=0.2)


@pytest.mark.usefixtures("allowed")
def test_a_server_that_drips_in_the_tls_handshake_is_cut_off_at_the_deadline() -> None:
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            peer, _ = listening.accept()
            with peer, suppress(OSError):
                peer.sendall(b"\x16\x03\x03\x40\x00")
                while not over.wait(0.05):
                    peer.sendall(b".")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            with pytest.raises(CallFailed, match="in time"):
                get(f"https://127.0.0.1:{listening.getsockname()[1]}/", timeout=0.3)
        finally:
            over.set()
            thread.join(10)


@pytest.mark.usefixtures("allowed")
def test_a_name_that_is_not_resolved_in_time_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(10) and [])
    with pytest.raises(CallFailed, match="in time"):
        get("http://slow.example/", timeout=0.1)
    over.set()


def test_a_redirect_to_a_private_address_is_refused(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server.elsewhere = f"http://127.0.0.1:{server.server_port}/end"
    to_server = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.server_port))]
    resolve: Callable[..., Any] = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *a, **k: to_server if host == "public.example" else resolve(host, *a, **k)
    )
    with pytest.raises(CallRefused, match="not public"):
        get(f"http://public.example:{server.server_port}/away")
    monkeypatch.setattr("itinerary.net.safe_http.is_public", lambda text: not server.seen)
    with pytest.raises(CallRefused, match=r"127\.0\.0\.1 has an address that is not public"):
        get(f"http://public.example:{server.server_port}/away")
    assert [path for _, path, _, _ in server.seen] == ["/away"]


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "fe80::1%eth0",
        "fec0::1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "2001:db8::1",
        "64:ff9b::7f00:1",
        "64:ff9b::a00:1",
        "2002:7f00:1::",
        "2002:a00:1::1",
    ],
)
def test_addresses_inside_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "64:ff9b::101:101"])
def test_addresses_of_the_open_internet_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/",
        "http://127.0.0.1:8000/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://127.1/",
        "http://0/",
    ],
)
def test_this_machine_is_refused_however_it_is_written(url: str) -> None:
    with pytest.raises(CallRefused, match="not public"):
        get(url)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://example.com/",
        "gopher://example.com/",
        "//example.com/",
        "http://",
        "http://user:secret@example.com/",
        "http://example.com:0/",
        "http://example.com:99999/",
        "http://[::1/",
        "",
    ],
)
def test_other_urls_are_refused_before_any_connection(url: str) -> None:
    with pytest.raises(CallRefused) as refusal:
        get(url)
    assert "secret" not in str(refusal.value)


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "Connection"])
def test_headers_of_the_transport_are_refused(name: str) -> None:
    with pytest.raises(CallRefused, match="is set by the call itself"):
        get("http://example.com/", **{name: "x"})


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize(
    ("name", "value"),
    [("X-A", "secret\r\nX-Evil: 1"), ("X-A", "secret\n"), ("X-A", "secret\u20ac"), ("X A", "secret"), ("", "secret"),
     ("X\xe4", "secret"), ("X:A", "secret")],
)  # fmt: skip
def test_a_header_that_is_not_one_line_of_letters_is_refused_by_name(server: Any, name: str, value: str) -> None:
    with pytest.raises(CallRefused, match=r"^header '.*' cannot be sent") as refusal:
        get(server.url, **{name: value})
    assert "secret" not in str(refusal.value)
    assert server.seen == []


@pytest.mark.usefixtures("allowed")
def test_headers_may_be_latin_1(server: Any) -> None:
    get(server.url, **{"X-A": "\xe4 b\tc", "X-B": ""})
    assert server.seen[0][2]["X-A"] == "\xe4 b\tc"


@pytest.mark.parametrize("timeout", [0, -1, 4000, float("nan")])
def test_a_timeout_out_of_range_is_refused(timeout: float) -> None:
    with pytest.raises(CallRefused, match="timeout"):
        get("http://example.com/", timeout=timeout)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(CallRefused, match="method"):
        call("http://example.com/", "TRACE", {}, None, 1.0)
