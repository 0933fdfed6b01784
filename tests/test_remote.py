"""Remote models: what is sent, comes back, and is refused; against structgen's own server and a careless one."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Annotated

import pytest
from pydantic import AfterValidator, BaseModel, Field

import structgen as sg
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.errors import BudgetExhausted, OptionError, RunError, ValidationFailed
from structgen.server import Settings
from tests.support.serving import served
from tests.support.tables import cases

PROMPT = "Extract the person: name, age, city.\nText: Ada Moreau, 36, lives in Lyon."
ADA = Person(name="Ada Moreau", age=36, city="Lyon")


@pytest.fixture(scope="module")
def url():
    settings = Settings(name="m", api_key="key", max_tokens=512)
    with served(sg.Model.of(*load_demo()), settings) as server:
        yield f"{server.url}/v1"


@pytest.fixture
def remote(url):
    return sg.Remote(url, "m", api_key="key")


@pytest.fixture
def own(url):
    return sg.Remote(url, "m", api_key="key", structgen=True)


def test_the_same_call_as_with_a_model_of_this_process(remote):
    assert sg.generate(remote, PROMPT, Person) == ADA
    messages = [{"role": "user", "content": PROMPT}]
    values = sg.generate(remote, [messages, messages], [Person, {"enum": ["Lyon", "Oslo"]}])
    assert values[0] == ADA
    assert values[1] in ("Lyon", "Oslo")
    assert json.loads(sg.generate(remote, PROMPT, limits=sg.Limits(60)))["name"] == "Ada Moreau"
    assert sg.generate(remote, PROMPT, limits=sg.Limits(stop=[" Mor"])) == '{"name": "Ada'
    assert sg.generate(remote, []) == []


def test_jobs_and_evaluations_ask_an_endpoint(remote, tmp_path):
    template, name = "Extract the person: name, age, city.\nText: {text}", "Ada Moreau, 36, lives in Lyon."
    rows = [{"id": "a", "text": name, "expected": ADA}, {"id": "b", "text": " "}, {"id": "c", "text": name}]
    out = tmp_path / "out.jsonl"
    for counts in ((2, 1, 0), (0, 1, 2)):
        report = sg.extract_many(remote, rows, Person, prompt=template, out=out, resume=True)
        assert (report.done, report.failed, report.skipped) == counts
    assert sg.evaluate(remote, rows[:1], Person, prompt=template).whole.right == 1
    lost = sg.extract_many(sg.Remote("http://127.0.0.1:9/v1", "m"), rows[:1], Person, prompt=template)
    assert (lost.failed, lost.results[0]["error"]["type"]) == (1, "RunError")
    with pytest.raises(OptionError, match="beams"):
        sg.extract_many(remote, rows, Person, prompt=template, guards=[sg.BannedWords(["x"])], beams=2)


def test_details_say_that_the_value_was_validated_and_not_masked(remote, own):
    run = sg.generate(remote, PROMPT, Person, details=True)
    assert (run.value, run.guarantee, run.finish) == (ADA, "validated", "complete")
    assert run.prompt_tokens > 20 < run.stats.tokens + 10
    local = sg.generate(sg.Model.of(*load_demo()), PROMPT, Person, details=True)
    assert local.guarantee == "masked"
    cut = sg.generate(own, PROMPT, Person, limits=sg.Limits(17), details=True)
    assert (cut.finish, [cap.name for cap in cut.caps]) == ("closed_by_budget", ["max_new_tokens"])
    early = sg.generate(own, PROMPT, Person, limits=sg.Limits(max_characters=3), details=True)
    assert (early.finish, early.after_cuts) == ("capped", ("/age", "/city"))
    with pytest.warns(sg.BudgetWarning, match="city"):
        sg.generate(remote, PROMPT, Person, limits=sg.Limits(17))
    drawn = sg.Sampling(temperature=1.5, seed=4, top_p=0.9)
    first, again = (sg.generate(remote, PROMPT, {"type": "string"}, sampling=drawn) for _ in range(2))
    assert first == again


def test_what_only_our_own_server_can_do(remote, own):
    for schema, options, told in (
        (sg.Regex("[a-c]{3}"), {}, "regex"),
        (sg.Choice(["yes", "no"]), {}, "choice"),
        (sg.Lark('start: "a" | "b"'), {}, "grammar"),
        (Person, {"banned": ["Lyon"]}, "banned"),
        (Person, {"order": ["city", "age", "name"]}, "order"),
        (Person, {"whitespace": sg.Whitespace.INDENTED(2)}, "whitespace"),
        (Person, {"whitespace": sg.Whitespace.COMPACT}, "whitespace"),
        (Person, {"canonical": True}, "canonical"),
        (Person, {"limits": sg.Limits(max_characters=5)}, "budget"),
        (Person, {"sampling": sg.Sampling(top_k=3)}, "top_k"),
    ):
        with pytest.raises(OptionError, match=told):
            sg.generate(remote, PROMPT, schema, **options)
        run = sg.generate(own, PROMPT, schema, details=True, **options)
        assert run.error is None
        if told == "whitespace":
            assert run.text.startswith('{\n  "' if "\n" in run.text else '{"name":"')
        if told == "order":
            assert run.text.startswith('{"city"')
    with pytest.raises(OptionError, match="endpoint"):
        sg.generate(own, PROMPT, sg.Sequence("a", sg.Regex("b")))


@pytest.mark.parametrize(
    "options",
    cases("remote", "what_no_endpoint_can_do", globals()),
)  # fmt: skip
def test_what_no_endpoint_can_do_is_refused(remote, options):
    with pytest.raises(OptionError):
        sg.generate(remote, **{"prompt": PROMPT, "schema": Person, **options})


def test_what_takes_a_model_of_this_process_says_so(remote):
    for call in (sg.stream, sg.classify):
        with pytest.raises(OptionError, match=r"a Remote is for generate, call, run|no weights here"):
            call(remote, ["x"], Person)


def test_keys_names_and_addresses_that_are_wrong(url):
    for wrong, error in (
        (sg.Remote(url, "other", api_key="key"), OptionError),
        (sg.Remote(url, "m"), RunError),
        (sg.Remote("http://127.0.0.1:9/v1", "m"), RunError),
        (sg.Remote(url + "/nothing", "m", api_key="key"), OptionError),
    ):
        with pytest.raises(error):
            sg.generate(wrong, PROMPT, Person)
    for arguments in (("ftp://x", "m"), (url, ""), (5, "m")):
        with pytest.raises(OptionError):
            sg.Remote(*arguments)
    with pytest.raises(OptionError, match="timeout"):
        sg.Remote(url, "m", timeout=0)
    assert "key" not in repr(sg.Remote(url, "m", api_key="key"))


class Careless(BaseHTTPRequestHandler):
    """An endpoint that keeps no schema."""

    answers: list[str]

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = self.answers.pop(0).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        """Quiet."""


def even(value: int) -> int:
    if value % 2:
        raise ValueError("odd")
    return value


class Pair(BaseModel):
    n: Annotated[int, AfterValidator(even)]


def test_what_a_careless_endpoint_says_is_an_error_and_never_a_value():
    def said(text, finish="stop"):
        return json.dumps({"choices": [{"message": {"content": text}, "finish_reason": finish}]})

    Careless.answers = [
        said('{"n": 4}'), said("Sure! {"), said('{"n": 3}'), said('{"n": '), said('{"n": ', "length"), "no JSON",
        json.dumps({"error": "x"}), said('{"n": "4"}'), said(None),
        said('{"n": 4.35}'), said('{"n": NaN}'), said("aab"), said("aa"),
    ]  # fmt: skip
    with HTTPServer(("127.0.0.1", 0), Careless) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        remote = sg.Remote(f"http://127.0.0.1:{server.server_port}/v1", "m")
        assert sg.generate(remote, "?", Pair) == Pair(n=4)
        for error in (ValidationFailed, ValidationFailed, ValidationFailed, BudgetExhausted, RunError, RunError):
            with pytest.raises(error):
                sg.generate(remote, "?", Pair)
        plain = {"type": "object", "properties": {"n": {"type": "integer"}}}
        with pytest.raises(ValidationFailed, match="/n: found \"4\"; type is 'integer'"):
            sg.generate(remote, "?", plain)
        run = sg.generate(remote, ["?"], plain, details=True)
        assert isinstance(run[0].error, ValidationFailed)
        cents = {"type": "object", "properties": {"n": {"type": "number", "multipleOf": 0.01}}}
        assert sg.generate(remote, "?", cents) == {"n": 4.35}
        with pytest.raises(ValidationFailed, match="/n: NaN is no JSON number"):
            sg.generate(remote, "?", cents)
        own = replace(remote, structgen=True)
        with pytest.raises(ValidationFailed, match="at byte 2 of b'aab'"):
            sg.generate(own, "?", sg.Regex("a+"))
        assert sg.generate(own, "?", sg.Regex("a+")) == "aa"
        server.shutdown()


class Noting(BaseHTTPRequestHandler):
    """An endpoint that notes the schema it is sent."""

    sent: list[dict]
    answer: str

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.sent.append(body["response_format"]["json_schema"]["schema"])
        answer = json.dumps({"choices": [{"message": {"content": self.answer}, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments):
        """Quiet."""


class Town(BaseModel):
    name: Annotated[str, Field(min_length=3)]
    size: int = 7


def test_a_provider_is_sent_what_it_takes_and_its_answer_is_restored_and_validated():
    Noting.sent, Noting.answer = [], '{"name": "Oslo", "size": null}'
    with HTTPServer(("127.0.0.1", 0), Noting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        remote = sg.Remote(f"http://127.0.0.1:{server.server_port}/v1", "m", provider="openai")
        assert sg.generate(remote, "?", Town) == Town(name="Oslo")
        assert Noting.sent == [sg.portable(Town, "openai").schema]
        assert "minLength" not in json.dumps(Noting.sent)
        Noting.answer = '{"name": "Os", "size": null}'  # what the provider could not be told
        with pytest.raises(ValidationFailed, match="at least 3 characters"):
            sg.generate(remote, "?", Town)
        Noting.answer = '{"value": [1, 2]}'
        assert sg.generate(remote, "?", list[int]) == [1, 2]
        Noting.answer = "no JSON"
        with pytest.raises(ValidationFailed, match="no JSON"):
            sg.generate(remote, "?", list[int])
        server.shutdown()
    with pytest.raises(OptionError, match="provider='cohere'"):
        sg.Remote("http://127.0.0.1", "m", provider="cohere")


class Redirecting(BaseHTTPRequestHandler):
    """An endpoint that sends its clients elsewhere, and notes who comes there."""

    came: list[str]

    def do_POST(self):
        self.came.append(self.path)
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(307)
        self.send_header("Location", f"http://127.0.0.2:{self.server.server_port}/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        """Quiet."""


def test_a_redirect_is_an_error_and_no_key_goes_there():
    Redirecting.came = []
    with HTTPServer(("127.0.0.1", 0), Redirecting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        remote = sg.Remote(f"http://127.0.0.1:{server.server_port}/v1", "m", api_key="secret")
        with pytest.raises(RunError, match=r"redirects to .*elsewhere: no key goes"):
            sg.generate(remote, "?", Pair)
        server.shutdown()
    assert Redirecting.came == ["/v1/chat/completions"]


@pytest.fixture
def llama_server(tmp_path):
    """The server of llama-cpp-python with the demo model: another one that constrains, by grammars of its own."""
    for package in ("llama_cpp", "gguf", "pydantic_settings", "starlette_context"):
        pytest.importorskip(package, reason="needs llama-cpp-python[server] and gguf")
    from tests.support.gguf_files import write_gguf

    model, tokenizer = load_demo()
    file = write_gguf(tmp_path / "demo.gguf", model, tokenizer, tokenizer.chat_template)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", "llama_cpp.server", "--model", file, "--n_ctx", "512", "--port", port]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        url, until = f"http://127.0.0.1:{port}/v1", time.monotonic() + 120
        while "startup complete" not in (tmp_path / "log").read_text():
            assert process.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < until
            time.sleep(0.1)
        try:
            yield url
        finally:
            process.terminate()


@pytest.mark.slow
def test_another_server_that_constrains_is_believed_only_as_far_as_its_values_validate(llama_server):
    remote = sg.Remote(llama_server, "demo", response_format="json_object")
    runs = sg.generate(remote, [PROMPT, PROMPT.replace("36", "51")], Person, limits=sg.Limits(100), details=True)
    assert [run.value.age for run in runs] == [36, 51]
    assert {run.guarantee for run in runs} == {"validated"}
    ignored = {"type": "object", "properties": {"n": {"type": "integer", "multipleOf": 70}}, "required": ["n"]}
    (run,) = sg.generate(remote, [PROMPT], ignored, limits=sg.Limits(100), details=True)
    assert isinstance(run.error, (ValidationFailed, BudgetExhausted))  # its grammars know no multipleOf
    assert run.value is None
    with pytest.raises(RunError, match=r"answers 500: .*response_format"):
        sg.generate(sg.Remote(llama_server, "demo"), PROMPT, Person)
