"""The command line, in this process: output, exit codes, and errors without tracebacks.

Covers `demo.show`, `named` and `terminal`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import structgen as sg
from structgen.cli import app
from structgen.cli.app import _api_keys, _named_models
from structgen.testing import scripted
from tests.support.tables import cases

CITY = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def run(*arguments: str, **options):
    return CliRunner().invoke(app, list(arguments), **options)


def test_a_shell_completes_commands_and_options():
    line = {"COMP_WORDS": "structgen ser", "COMP_CWORD": "1", "_STRUCTGEN_COMPLETE": "complete_bash"}
    assert run(env=line, prog_name="structgen").output.split() == ["serve"]
    option = {**line, "COMP_WORDS": "structgen serve m --row", "COMP_CWORD": "3"}
    assert run(env=option, prog_name="structgen").output.split() == ["--rows", "--row-seconds"]
    for shell in ("bash", "zsh", "fish"):
        assert "structgen" in run(env={"_STRUCTGEN_COMPLETE": f"source_{shell}"}, prog_name="structgen").output


@pytest.fixture
def loaded(monkeypatch):
    """`load` gives a scripted model; the test reads what it was asked for."""
    asked = []

    def load(name, **options):
        asked.append((name, options))
        return scripted('{"name": "Zoë"}')

    monkeypatch.setattr(sg, "load", load)
    return asked


def test_generate_prints_the_value_of_a_schema_as_json(loaded, tmp_path):
    schema = tmp_path / "city.json"
    schema.write_text(json.dumps(CITY))
    result = run("generate", "some/model", "Tell me.", "--schema", str(schema), "--device", "cpu")
    assert (result.exit_code, result.stdout) == (0, '{"name": "Zoë"}\n')
    assert loaded == [("some/model", {"device": "cpu"})]


def test_generate_reads_the_prompt_from_standard_input_and_prints_text_as_it_is(loaded):
    result = run("generate", "some/model", "-", "--chat", input="Tell me.")
    assert (result.exit_code, result.stdout) == (0, '{"name": "Zoë"}\n')
    assert run("generate", "m", "x", "--regex", '[{]"name": "[A-Z]').stdout == '{"name": "Z\n'
    assert run("generate", "m", "x", "--choice", "yes", "--choice", "no").stdout in ("yes\n", "no\n")
    assert run("generate", "m", "x", "--regex", '[{]"name": "[A-Z]', "--beams", "3").stdout == '{"name": "Z\n'


NAMED = {"type": "object", "properties": {"name": {"$ref": "http://example.com/parts/name.json"}}, "required": ["name"]}


def documents(folder):
    """A schema, and a folder with the one that it refers to, with an id and without."""
    (folder / "city.json").write_text(json.dumps(NAMED))
    (folder / "parts").mkdir()
    (folder / "parts" / "name.json").write_text(json.dumps({"type": "string", "minLength": 3}))
    (folder / "with-id.json").write_text(json.dumps({"$id": "http://example.com/parts/name.json", "type": "string"}))
    return str(folder / "city.json")


@pytest.mark.parametrize(
    "given",
    ["{}/with-id.json", "http://example.com/parts/name.json={}/parts/name.json", "http://example.com/parts={}/parts"],
)
def test_references_lead_to_the_documents_of_a_registry(loaded, tmp_path, given):
    schema = documents(tmp_path)
    result = run("generate", "m", "x", "--schema", schema, "--registry", given.format(tmp_path))
    assert (result.exit_code, result.stdout) == (0, '{"name": "Zoë"}\n')
    explained = run("explain", schema, "--registry", given.format(tmp_path))
    assert explained.exit_code == 0
    assert "masked" in explained.output


@pytest.mark.parametrize(("given", "message"), cases("cli/app", "a_registry_without_the"))
def test_a_registry_without_the_document_is_one_message(loaded, tmp_path, given, message):
    schema = documents(tmp_path)
    (tmp_path / "empty").mkdir()
    options = [each for one in given for each in ("--registry", one.format(tmp_path))]
    result = run("generate", "m", "x", "--schema", schema, *options)
    said = " ".join(result.output.replace("│", " ").split())
    assert result.exit_code in (1, 2)
    assert message in said or message.replace("comes", "come") in said
    assert "Traceback" not in said


@pytest.mark.parametrize(("arguments", "message"), cases("cli/app", "a_mistake_is_one"))
def test_a_mistake_is_one_message_and_a_failing_exit_code(loaded, tmp_path, arguments, message):
    schema = tmp_path / "city.json"
    schema.write_text(json.dumps(CITY))
    result = run("generate", "m", "x", *[str(schema) if a == "SCHEMA" else a for a in arguments])
    assert result.exit_code in (1, 2)
    assert message in result.output
    assert "Traceback" not in result.output
    assert not isinstance(result.exception, sg.StructgenError)


def test_an_unknown_model_is_a_message(tmp_path):
    result = run("generate", str(tmp_path / "nothing"), "x")
    assert result.exit_code == 1
    assert "cannot load" in result.output.replace("\n", " ")


def test_doctor_shows_the_call_format_of_a_chat_template(tmp_path):
    from structgen.testing import HERMES

    (tmp_path / "chat.jinja").write_text(HERMES)
    result = run("doctor", str(tmp_path / "chat.jinja"))
    assert result.exit_code == 0, result.output
    assert "<tool_call>" in result.output
    (tmp_path / "silent.jinja").write_text("{% for message in messages %}{{ message.content }}{% endfor %}")
    result = run("doctor", str(tmp_path / "silent.jinja"))
    assert result.exit_code == 1
    assert "renders no call" in " ".join(result.output.split())


def test_doctor_shows_the_call_format_of_a_folder(tmp_path):
    from structgen.testing import scripted_chat

    scripted_chat("").tokenizer.save_pretrained(tmp_path)
    result = run("doctor", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "<tool_call>" in result.output


def test_doctor_knows_the_bundled_model_without_the_hub(monkeypatch):
    asked = []
    monkeypatch.setattr("transformers.utils.hub.hf_hub_download", lambda repository, *_, **__: asked.append(repository))
    result = run("doctor", "demo")
    assert result.exit_code == 0, result.output
    assert '"arguments": {arguments}' in result.output
    assert not asked


def test_demo_shows_the_bundled_model(monkeypatch):
    from structgen.demo import show

    monkeypatch.setattr(show, "show", lambda: print("side by side"))
    assert run("demo").output == "side by side\n"


def test_without_arguments_the_commands_are_listed():
    output = run().output
    assert all(command in output for command in ("demo", "generate", "doctor"))


FAULTY_FILES = cases("cli/app", "FAULTY_FILES", globals())


@pytest.mark.parametrize("name", FAULTY_FILES)
@pytest.mark.parametrize("command", [("explain",), ("generate", "m", "x", "--schema")], ids=["explain", "generate"])
def test_a_faulty_file_is_told_without_a_traceback(loaded, tmp_path, command, name):
    """Exit code 1 with one line for what the schema says, 2 for what is no schema."""
    file = tmp_path / "schema.json"
    file.write_bytes(FAULTY_FILES[name])
    result = run(*command, str(file))
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code in (1, 2)
    assert len(result.stderr) < 2_000
    assert result.exit_code == 2 or result.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", cases("cli/app", "odd_arguments_are_told"))
def test_odd_arguments_are_told_without_a_traceback(arguments, monkeypatch):
    """Folders in place of files, names that are no text, counts beyond what is possible."""
    if arguments[1] == "m":
        monkeypatch.setattr(sg, "load", lambda name, **options: scripted("x"))
    result = run(*arguments)
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in (1, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    ["generate m - <&-", "explain {} >/dev/full", "explain {} | true", "explain no-file 2>&-"],
)
def test_closed_and_full_pipes_leave_no_traceback(tmp_path, line):
    """In a process of its own, in the C locale."""
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"properties": {"é": {"type": "integer"}}}))
    command = f"{sys.executable} -c 'from structgen.cli import app; app()' {line.format(schema)}"
    found = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    assert "Traceback" not in found.stderr
    assert "Exception ignored" not in found.stderr
    assert found.returncode in (0, 1, 2)
    assert found.returncode != 1 or found.stderr.count("\n") == 1


def test_serve_names_the_extra_that_is_missing(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("structgen.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    monkeypatch.delattr(sg, "server", raising=False)  # another test may have imported it
    result = run("serve", "demo")
    assert result.exit_code == 1
    assert "structgen-llm[server]" in result.stderr


def test_the_keys_of_a_server_and_its_port_are_checked_before_its_model_is_loaded(tmp_path, monkeypatch):
    assert sg.__version__ in run("--version").stdout
    monkeypatch.setenv("STRUCTGEN_API_KEY", "")
    assert "STRUCTGEN_API_KEY is empty" in run("serve", "no/model").stderr
    monkeypatch.setenv("STRUCTGEN_API_KEY", "one")
    keys = tmp_path / "keys"
    keys.write_text("# who has them\nfirst # Ada\n\nsecond\n")
    assert "give one of" in run("serve", "no/model", "--api-key-file", str(keys)).stderr
    monkeypatch.delenv("STRUCTGEN_API_KEY")
    assert _api_keys(None, keys) == ["first", "second"]
    assert _named_models(["a/b/", "c=d/e", "./x=y"], None) == {"b": "a/b/", "c": "d/e", "x=y": "./x=y"}
    assert _named_models(["a/b"], "m") == {"m": "a/b"}
    keys.write_text("# none")
    assert "no key in" in run("serve", "no/model", "--api-key-file", str(keys)).stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"cannot listen on 127.0.0.1:{port}" in run("serve", "no/model", "--port", port).stderr
        assert "'b' is the name of no model, or of two" in run("serve", "a/b", "c/b", "--port", port).stderr
        server = pytest.importorskip("structgen.server")
        with pytest.raises(sg.OptionError, match="cannot listen"):  # taken while the model was loaded
            server.serve(scripted("1"), port=int(port))


@pytest.mark.parametrize("command", [("explain", "--all"), ("generate", "m", "x", "--schema"), ("check",)])
def test_a_schema_may_be_written_out_or_be_a_type(loaded, command):
    """In every command; what is no JSON says so, and so does a type that is not there."""
    assert run(*command, json.dumps(CITY)).exit_code == 0
    said = " ".join(run(*command, '{"type": integer}').stderr.replace("│", " ").split())
    assert '{"type": integer} is not JSON: Expecting value' in said
    if command[0] != "generate":  # the scripted model says no Person
        result = run(*command, "structgen.demo.tasks:Person")
        assert (result.exit_code, "Person" in result.output or "masked" in result.output) == (0, True)
    assert "no attribute 'Nobody'" in " ".join(
        run(*command, "structgen.demo.tasks:Nobody").stderr.replace("│", " ").split()
    )


def test_explain_shows_what_a_provider_does_not_take_and_reads_a_named_dialect(tmp_path):
    schema, plain = str(tmp_path / "a.json"), tmp_path / "b.json"
    (tmp_path / "a.json").write_text('{"type": "array", "items": [{"type": "string", "minLength": 2}]}', "utf-8")
    plain.write_text('{"type": "integer"}', "utf-8")
    assert run("explain", schema).exit_code == 0  # a list of items is read as the drafts before 2020-12 read it
    assert "items" in run("explain", schema, "--dialect", "draft7").output
    lost = run("explain", schema, "--dialect", "draft7", "--provider", "openai")
    assert "/items/0/minLength  wider: the provider does not take minLength" in lost.output
    data = json.loads(run("explain", schema, "--dialect", "draft7", "--provider", "openai", "--json").output)
    assert data["schema"]["required"] == ["value"]
    assert {loss["effect"] for loss in data["losses"]} == {"wider", "narrower"}
    assert run("explain", str(plain), "--provider", "gemini").output == "nothing is lost\n"
    assert "'mistral'" in run("explain", schema, "--provider", "x").output


def test_explain_reads_grammars(tmp_path):
    grammar = tmp_path / "sums.gbnf"
    grammar.write_text('root ::= root "+" root | [0-9]+', encoding="utf-8")
    told = run("explain", "--all", str(grammar)).output
    assert "all readings count; ambiguous: root begins and ends with itself" in told
    grammar.write_text('root ::= "a', encoding="utf-8")
    refused = run("explain", str(grammar))
    assert refused.exit_code != 0
    assert "GBNF grammar, line 1: the text has no end" in refused.output
