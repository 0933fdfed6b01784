"""What the arguments of commands name: a schema in a file or a module, the documents of `--registry`."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from structgen.errors import excerpt, quoted

HELP = (
    "A file or folder with schemas that references of --schema lead to, each known by its $id; URI=FILE and URI=FOLDER "
    "name what has none, files of a folder by their paths. Give it several times. Nothing is fetched."
)


def schema_of(given: str, *, grammars: bool = False) -> Any:
    """Returns a JSON Schema from a file or as it is written, or a type from a module; if `grammars`, also a grammar."""
    if given.lstrip().startswith("{"):
        return _schema_in(given, given)
    module, colon, _ = given.partition(":")
    if not colon or Path(given).exists() or os.sep in module:
        return read_schema(Path(given), grammars=grammars)
    return object_of(given)


def object_of(given: str) -> Any:
    """Returns what `module:name` names, importable from here.

    Raises:
        BadParameter: there is none.
    """
    module, _, name = given.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        named: Any = importlib.import_module(module)
        for part in name.split("."):
            named = getattr(named, part)
    except (ImportError, AttributeError) as error:
        raise typer.BadParameter(f"{given}: {excerpt(error)}") from error
    finally:
        sys.path.remove(os.getcwd())
    return named


def registry_of(given: Sequence[str]) -> Registry[Any]:
    """Returns all documents of files and folders.

    Raises:
        BadParameter: one of them is missing, is no schema, or has no name.
    """
    documents = [document for each in given for document in _documents(each)]
    return Registry().with_resources(documents)


def _documents(given: str) -> Iterator[tuple[str, Resource[Any]]]:
    uri, equals, path = ("", "", given) if Path(given).exists() else given.rpartition("=")
    place = Path(path)
    if place.is_dir():
        files = sorted(place.rglob("*.json"))
        if not files:
            raise typer.BadParameter(f"--registry {given}: the folder has no .json files")
        base = uri.rstrip("/") + "/" if equals else ""
        named = [(file, base + file.relative_to(place).as_posix() if equals else "") for file in files]
    else:
        named = [(place, uri)]
    for file, name in named:
        resource = Resource.from_contents(read_schema(file), default_specification=DRAFT202012)
        name = name or resource.id() or ""
        if not name:
            raise typer.BadParameter(f"--registry {given}: {file} has no $id: give it a name, as --registry URI={path}")
        yield name, resource


def read_schema(path: Path, *, grammars: bool = False) -> Any:
    """Reads a JSON Schema from a file; if `grammars`, also a grammar, by the ending of the file's name."""
    try:
        text = path.read_text(encoding="utf-8")
        if grammars and path.suffix in (".lark", ".gbnf", ".ebnf"):
            import structgen as sg

            return {".lark": sg.Lark, ".gbnf": sg.constraints.GBNF, ".ebnf": sg.constraints.EBNF}[path.suffix](text)
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}") from error
    except UnicodeError as error:
        raise typer.BadParameter(f"{path} is not JSON: {excerpt(error)}") from error
    return _schema_in(text, str(path))


def _schema_in(text: str, where: str) -> Any:
    """Returns the JSON Schema that a text has."""
    where = excerpt(where)
    try:
        contents = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"{where} is not JSON: {excerpt(error)}") from error
    except RecursionError as error:
        raise typer.BadParameter(f"{where} nests too deeply to be read as JSON") from error
    if not isinstance(contents, (dict, bool)):
        raise typer.BadParameter(f"{where} has {quoted(contents)}: expected a JSON Schema, an object or true or false")
    return contents
