"""The server on Ray Serve, where it is installed (`structgen-llm[ray-serve]`): run this file with `-m slow`."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import openai
import pytest

import structgen as sg
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.errors import OptionError, RunError
from structgen.integrations.ray_serve import Replica, serve_on_ray
from structgen.server import Settings
from tests.support.serving import served

ASK = "Extract the person: name, age, city.\nText: {}, {}, lives in Lyon."


def demo():
    """Loaded by each replica."""
    return sg.Model.of(*load_demo())


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(OptionError, match=r"structgen-llm\[ray-serve\]"):
        serve_on_ray(demo)


def test_a_replica_without_the_models_thread_is_not_healthy():
    replica = Replica()
    with served(demo(), Settings(name="demo")) as server:
        replica.app = server.app
        replica.check_health()
        server.engine.close()
        with pytest.raises(RunError, match="thread has ended"):
            replica.check_health()


@pytest.fixture(scope="module")
def url():
    ray = pytest.importorskip("ray", reason="needs Ray Serve: pip install 'structgen-llm[ray-serve]'")
    pytest.importorskip("ray.serve", reason="needs Ray Serve: pip install 'structgen-llm[ray-serve]'")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ray.init(num_cpus=4, include_dashboard=False, runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}})
    try:
        ray.serve.start(http_options={"host": "127.0.0.1", "port": port})
        settings = Settings(name="demo", rows=8, queue=40, max_tokens=200)
        ray.serve.run(serve_on_ray(demo, settings, replicas=2, num_cpus=0.5))
        yield f"http://127.0.0.1:{port}"
    finally:
        ray.serve.shutdown()
        ray.shutdown()


@pytest.fixture(scope="module")
def client(url):
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


@pytest.mark.slow
def test_replicas_answer_as_one_server_does(client):
    people = [(name, age) for name in ("Ada Moreau", "Tom Berg") for age in range(20, 30)]
    local = sg.generate(demo(), [[{"role": "user", "content": ASK.format(*person)}] for person in people], Person)

    def ask(person):
        content = ASK.format(*person)
        options = {"model": "demo", "messages": [{"role": "user", "content": content}], "temperature": 0}
        return client.chat.completions.parse(response_format=Person, **options).choices[0].message.parsed

    with ThreadPoolExecutor(10) as pool:
        assert list(pool.map(ask, people)) == local
    with client.responses.stream(
        model="demo", input=ASK.format(*people[0]), text_format=Person, temperature=0
    ) as stream:
        pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
        assert stream.get_final_response().output_parsed == local[0]
    assert len(pieces) > 5
    with pytest.raises(openai.BadRequestError, match="guided_json"):
        client.completions.create(model="demo", prompt="a", extra_body={"guided_json": {}})


@pytest.mark.slow
def test_a_client_that_leaves_frees_its_row(url, client):
    endless = {"model": "demo", "messages": [{"role": "user", "content": "?"}], "max_tokens": 200, "stream": True}
    endless |= {"extra_body": {"structgen": {"regex": "[a-z]{190,}"}}}
    for _ in range(12):
        stream = client.chat.completions.create(**endless)
        next(iter(stream))
        stream.close()
    until = time.monotonic() + 30
    while sum(running(url) for _ in range(8)):  # of whichever replica answers
        assert time.monotonic() < until, "rows are still taken"


def running(url: str) -> float:
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("structgen_running"))


@pytest.mark.slow
def test_health_and_models(url, client):
    with urllib.request.urlopen(f"{url}/health") as answer:
        assert json.load(answer) == {"status": "ok"}
    assert [model.id for model in client.models.list()] == ["demo"]


def mortal(file: str):
    """A model whose thread ends, as nothing should make it, while there is a file."""
    loaded = demo()

    def end(*arguments):
        if Path(file).exists():
            raise SystemExit

    loaded.module.register_forward_pre_hook(end)
    return loaded


@pytest.mark.slow
def test_a_replica_whose_model_has_ended_is_replaced(url, tmp_path):
    file = tmp_path / "end"
    options = {"name": "mortal", "health_check_period_s": 1, "health_check_timeout_s": 30, "num_cpus": 0.5}
    settings = Settings(name="demo", grace_seconds=1)
    app = serve_on_ray(partial(mortal, str(file)), settings, **options)
    pytest.importorskip("ray.serve").run(app, name="mortal", route_prefix="/mortal")
    client = openai.OpenAI(base_url=f"{url}/mortal/v1", api_key="none", max_retries=0, timeout=20)

    def ask() -> str:
        return client.completions.create(model="demo", prompt="a", max_tokens=3, temperature=0).choices[0].text

    text = ask()
    file.touch()
    with pytest.raises(openai.APIError):
        ask()
    file.unlink()
    until = time.monotonic() + 200
    while True:
        assert time.monotonic() < until, "the replica is as it was"
        with suppress(openai.APIError):
            assert ask() == text
            break
        time.sleep(1)
