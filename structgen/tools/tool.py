"""A tool: a name, a description, typed arguments, and the function that runs when it is called."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import secrets
import string
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import to_jsonable_python
from typing_extensions import Unpack

from structgen.arguments import named_options, require
from structgen.errors import BudgetExhausted, OptionError, ValidationFailed, excerpt, quoted
from structgen.regular.quotes import Place
from structgen.schema.places import check_patterns
from structgen.schema.python.types import from_type, is_function, value_type
from structgen.schema.python.validators import validated
from structgen.schema.reader import read
from structgen.tools.api_requests import Send, send_by_httpx
from structgen.tools.invoking import MAX_RESULT, Invoking, ToolOptions, require_options
from structgen.tools.openapi import functions_of
from structgen.tools.parameters import (
    Described,
    TextGrammar,
    declared,
    defaults,
    described,
    own_name,
    require_name,
    require_parameters,
    strict,
    typed_parameter,
    without_parameter,
    without_titles,
)
from structgen.values.judge import Judge, Refused

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R", covariant=True)
S = TypeVar("S")
D = TypeVar("D")

_ID_CHARACTERS = string.ascii_letters + string.digits


def new_id() -> str:
    """Returns a random id for a call: nine letters and digits. Mistral's templates demand this; others take any id."""
    return "".join(secrets.choice(_ID_CHARACTERS) for _ in range(9))


@dataclass(frozen=True, slots=True)
class Ctx(Generic[D]):
    """The context of a call. A tool has it by a parameter of this type, which the model does not see.

        @sg.tool
        def balance(ctx: sg.Ctx[Bank], pending: bool) -> float:
            '''The balance of the customer.'''
            return ctx.deps.balance(pending)

        sg.run(model, "What do I have?", [balance], deps=Bank("bank.db"))

    Attributes:
        deps: the `deps=` of the run: a connection, a user's id.
        call: the call itself, with its `id`.
        messages: the conversation up to the call.
    """

    deps: D
    call: ToolCall[Any] | None = None
    messages: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class ToolCall(Generic[R]):
    """A call of a tool by a model.

        call = sg.call(model, "Weather in Paris?", tools=[get_weather], choice="required")[0]
        call.name, call.arguments, call.invoke()

    Attributes:
        name: the name of the tool.
        arguments: values of the tool's Python types: a dict for a function, an instance for a Pydantic model, parsed
            JSON for a JSON Schema.
        id: distinguishes the calls of one conversation.
        tool: the tool that is called.
        quotes: where each argument that is a `Quote` is in its source, by JSON pointer.
        cut: the limit that ended the text within this call, as `max_new_tokens=512`; empty for a call that the model
            has ended itself. A call that is cut cannot be invoked, and `arguments` is what was written, as parsed JSON.
    """

    name: str
    arguments: Any
    id: str = field(default_factory=new_id, compare=False)
    tool: Tool[..., R] | None = field(default=None, repr=False, compare=False)
    quotes: Mapping[str, tuple[Place, ...]] = field(default_factory=dict, repr=False, compare=False)
    cut: str = ""

    @property
    def json(self) -> str:
        """The arguments as JSON, as `json.dumps(..., ensure_ascii=False)` writes it."""
        return json.dumps(to_jsonable_python(self.arguments), ensure_ascii=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """A call is pickled without its tool, whose function need not be one that can be."""
        return ToolCall, (self.name, self.arguments, self.id, None, dict(self.quotes), self.cut)

    @overload
    def invoke(self: ToolCall[Awaitable[S]], ctx: Ctx[Any] | None = None) -> S: ...
    @overload
    def invoke(self, ctx: Ctx[Any] | None = None) -> R: ...
    def invoke(self, ctx: Ctx[Any] | None = None) -> Any:
        """Calls the tool and returns its result, within the tool's `timeout` and `retries`.

        An async tool is run to its end in an event loop of structgen's own, in another thread.

        Args:
            ctx: the context for a tool that takes one, as `Ctx(deps)`; this call is added to it.

        Raises:
            BudgetExhausted: a limit has cut the call off.
            OptionError: the tool is a schema without a function; or it works only in the event loop of this thread,
                as a tool of an MCP session does: use `await call.ainvoke()`.
            TimeoutError: there was no result in time. Other exceptions are the tool's.
        """
        tool = self._with_function()
        return tool.invoking.invoke(partial(tool.run, self.arguments, replace(ctx or Ctx(None), call=self)))

    @overload
    async def ainvoke(self: ToolCall[Awaitable[S]], ctx: Ctx[Any] | None = None) -> S: ...
    @overload
    async def ainvoke(self, ctx: Ctx[Any] | None = None) -> R: ...
    async def ainvoke(self, ctx: Ctx[Any] | None = None) -> Any:
        """Calls the tool and returns its result, like `invoke`, but does not block the event loop.

        An async tool is awaited; any other tool runs in a thread.

        Raises:
            BudgetExhausted: a limit has cut the call off.
            OptionError: the tool is a schema without a function.
            TimeoutError: as for `invoke`.
        """
        tool = self._with_function()
        return await tool.invoking.ainvoke(partial(tool.run, self.arguments, replace(ctx or Ctx(None), call=self)))

    def _with_function(self) -> Tool[..., Any]:
        if self.cut:
            why = f"this call of {quoted(self.name)} was cut off by {self.cut}, and is not made"
            raise BudgetExhausted(f"{why}: write less at once, or raise the limit", self.json)
        if self.tool is None or self.tool.function is None:
            raise OptionError(f"the tool {quoted(self.name)} has no function: nothing can be invoked")
        return self.tool


@named_options
class Tool(Generic[P, R]):
    """A function, a class or a JSON Schema as a tool. It is called like what it was made of, with the same types.

        @sg.tool
        def get_weather(city: str, days: int = 1) -> str:
            '''The weather in a city.

            Args:
                city: its name, in English.
            '''

        get_weather("Paris")                                  # the function itself
        get_weather.parse('{"city": "Paris"}')                # {"city": "Paris"}, of the right types
        Tool.of(Booking), Tool.of({"name": "ping"})           # a Pydantic model, an entry of an MCP or OpenAI list

    Attributes:
        name: the name by which the model calls the tool.
        description: the description that the model reads.
        function: the function that runs; None for a tool that is only a schema.
        timeout: the seconds that a call may take, None for any time. Then there is a `TimeoutError`, and what is sync
            continues in its thread.
        retries: how often a call that raised is made again.
        max_result: the characters of a result that the model reads at most.
        concurrent: may a call run next to other calls of the same turn, in a thread?
        ends: the result of a call is the answer of the run, without another turn of the model.
        grammar: what the text of the argument `input` follows, of a custom tool; None for any other tool.
    """

    grammar: TextGrammar | None = None

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
        retries: int = 0,
        max_result: int = MAX_RESULT,
        concurrent: bool = True,
        ends: bool = False,
    ) -> None:
        require(callable(function), "function", function, "a function, a method or a class")
        self._given, self._schema = (name, description), cast("dict[str, Any] | None", None)
        self.function: Callable[P, R] | None = function
        self.name: str = own_name(function) if name is None else name
        require_name(self.name)
        self.timeout, self.retries, self.max_result, self.concurrent = timeout, retries, max_result, concurrent
        self.ends = ends
        require_options(self)
        self._home: asyncio.AbstractEventLoop | None = None
        functools.update_wrapper(self, function, updated=())

    @overload
    @staticmethod
    def of(given: Callable[Q, S], **options: Unpack[ToolOptions]) -> Tool[Q, S]: ...  # type: ignore[overload-overlap]
    @overload
    @staticmethod
    def of(given: object, function: Callable[..., S], **options: Unpack[ToolOptions]) -> Tool[..., S]: ...
    @overload
    @staticmethod
    def of(given: object, function: None = None, **options: Unpack[ToolOptions]) -> Tool[..., Any]: ...
    @staticmethod
    def of(given: Any, function: Callable[..., Any] | None = None, **options: Unpack[ToolOptions]) -> Tool[..., Any]:
        """Returns the tool for a function, a class or a declaration; a tool is returned as it is.

        Args:
            given: a tool, a function or method, a Pydantic model or another class, or a declaration: an entry of a list
                of tools in OpenAI's, MCP's or Anthropic's form.
            function: the function that runs when a declared tool is called. It takes keyword arguments.
            options: `timeout`, `retries`, `max_result`, `concurrent`, `ends` of the new tool.

        Raises:
            OptionError: `function` is given although `given` is a function, a class or a tool itself; or options for a
                tool, which has its own.
            SchemaError: `given` is none of these.
        """
        if isinstance(given, Tool):
            require(function is None, "function", function, "none: the tool has its own")
            require(not options, "options", options, "none: the tool has its own")
            return given
        if isinstance(given, type) or is_function(given):
            require(function is None, "function", function, "none: the tool is one")
            return Tool(given, **options)
        entry = declared(given)
        made: Tool[..., Any] = Tool(function or _nothing, name=entry.name, description=entry.description, **options)
        made.function, made._schema, made.grammar = function, entry.parameters, entry.grammar
        return made

    @staticmethod
    def from_openapi(
        document: Mapping[str, Any],
        send: Send = send_by_httpx,
        *,
        server: str | None = None,
        headers: Mapping[str, str] | None = None,
        only: Sequence[str] | None = None,
        **options: Unpack[ToolOptions],
    ) -> list[Tool[..., Any]]:
        """Returns a tool for each operation of an OpenAPI document (3.0 or 3.1).

            tools = Tool.from_openapi(json.load(open("petstore.json")), headers={"Authorization": f"Bearer {key}"})

        The tool's name is the `operationId`, or made of the method and the path. Its arguments are the operation's
        parameters and, as `body`, its request body (JSON or a form). References within the document are followed, and
        `nullable` is read as a type. Members that are `readOnly` are left out.

        Args:
            document: the document, parsed.
            send: makes a request (`HttpRequest`) and returns the result; sync or async. By default
                httpx makes it, and follows no redirect.
            server: the URL before the paths, instead of the document's first one. All requests go to its origin, below
                its path. One without a path takes a plain path from the document's server.
            headers: further headers of each request; the model does not see them, and no parameter replaces them.
            only: the names of the tools that are wanted; None for all.
            options: `timeout`, `retries`, `max_result`, `concurrent`, `ends` of each tool.

        Raises:
            OptionError: no such document, its server's URL is not known, or `only` has a name that it has not.
            SchemaError: a part has the wrong type, a path leads elsewhere, a reference leads nowhere or out of the
                document, or a body is neither JSON nor a form.
            LimitExceeded: a schema nests too deeply, or the operations refer to too many.
        """
        made = functions_of(document, send, server, dict(headers or {}), only)
        return [Tool.of(entry, function, **options) for entry, function in made]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function and returns its result.

        Raises:
            OptionError: the tool is a schema without a function.
        """
        if self.function is None:
            raise OptionError(f"the tool {quoted(self.name)} has no function: nothing can be called")
        return self.function(*args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Tool[P, R]: ...
    @overload
    def __get__(self: Tool[Concatenate[S, Q], R], instance: S, owner: type[Any] | None = None) -> Tool[Q, R]: ...
    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        """Returns the tool of a method, bound to its object."""
        if instance is None or self.function is None:
            return self
        name, description = self._given
        return Tool(
            MethodType(self.function, instance), name=name, description=description, timeout=self.timeout,
            retries=self.retries, max_result=self.max_result, concurrent=self.concurrent, ends=self.ends,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"Tool({self.name})"

    @property
    def description(self) -> str:
        """The description that the model reads: the given one, or else that of the docstring."""
        given = self._given[1]
        return self._docstring.description if given is None else given

    @cached_property
    def _docstring(self) -> Described:
        return described(self.function)

    @cached_property
    def _context(self) -> str:
        return "" if self.function is None or self._schema is not None else typed_parameter(self.function, Ctx)

    @cached_property
    def type(self) -> Any:
        """The Python type of the arguments: a typed dict for a function, a Pydantic model itself, None for a schema."""
        if self._schema is not None:
            return None
        function = self.function
        require_parameters(function, self.name)
        if not isinstance(function, type):
            return value_type(without_parameter(cast(Any, function), self._context) if self._context else function)
        try:
            TypeAdapter(function)
        except PydanticUserError:  # a plain class: the arguments of its `__init__`
            return value_type(functools.partial(function))
        return function

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of the arguments that the model reads. It has descriptions and defaults, and allows no
        undeclared members.

        Raises:
            OptionError: the function cannot be called with keyword arguments.
            SchemaError, UnsupportedSchema: no JSON Schema describes an argument's type.
        """
        if self._schema is not None:
            return cast("dict[str, Any]", strict(self._schema))
        self.arguments_schema  # noqa: B018 - raises, with the parameter's name, if the function cannot be called
        schema = strict(without_titles(TypeAdapter(self.type).json_schema()))
        if self.function is self.type:
            schema.pop("description", None)  # it is the description of the tool
        members: dict[str, Any] = schema.setdefault("properties", {})
        for key, values in (
            ("description", self._docstring.parameters),
            ("default", {} if self.function is self.type else defaults(self.function)),
        ):
            for name, value in values.items():
                if isinstance(members.get(name), dict):
                    members[name].setdefault(key, value)
        return cast("dict[str, Any]", schema)

    @cached_property
    def arguments_schema(self) -> dict[str, Any]:
        """The JSON Schema that the mask follows. The arguments' types accept each of its values."""
        return self.parameters if self._schema is not None else from_type(self.type)[0]

    @cached_property
    def _judge(self) -> Judge:
        root = read(self.parameters)
        check_patterns(root)
        return Judge(root)

    @property
    def declaration(self) -> dict[str, Any]:
        """The tool in OpenAI's form, `{"type": "function", "function": {...}}`, as chat templates take it."""
        about = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": about}

    def parse(self, arguments: str | bytes) -> Any:
        """Returns the arguments in a JSON text as values of the tool's Python types.

        The result is a dict for a function, an instance for a Pydantic model, parsed JSON for a schema.

        Raises:
            ValidationFailed: the text is not JSON, or the schema or a validator refuses it.
        """
        try:
            if self._schema is None:
                return validated(from_type(self.type)[1], arguments)
            return self._judge.value(arguments)
        except (ValidationError, Refused) as refusal:
            why = str(refusal)
            text = arguments.decode("utf-8", errors="replace") if isinstance(arguments, bytes) else arguments
            message = f"the arguments of {quoted(self.name)} are refused: {excerpt(why)}; text: {quoted(text)}"
            raise ValidationFailed(message, "", text, why) from refusal

    def called(self, arguments: str | bytes, id: str | None = None) -> ToolCall[R]:
        """Returns the call with these arguments.

        Args:
            arguments: the arguments as JSON text.
            id: the id of the call; a fresh one if it is empty or None.

        Raises:
            ValidationFailed: as `parse` does.
        """
        return ToolCall(self.name, self.parse(arguments), id or new_id(), self)

    @property
    def is_async(self) -> bool:
        """Does a call of the function return a coroutine?"""
        call = getattr(self.function, "__call__", None)  # noqa: B004 - of an object that is callable
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(call)

    def runs_only_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """Says that the function, an async one, works only in this event loop."""
        self._home = loop

    @property
    def invoking(self) -> Invoking:
        """How the function is run."""
        return Invoking(self.is_async, self.timeout, self.retries, self._home)

    def run(self, arguments: Any, ctx: Ctx[Any]) -> Any:
        """Calls the function with arguments from `parse`, and returns its result: a coroutine if the tool is async."""
        function = cast("Callable[..., Any]", self.function)
        if isinstance(function, type) and isinstance(arguments, function):
            return arguments
        return function(**arguments, **({self._context: ctx} if self._context else {}))


def _nothing() -> None:
    """Stands in for the function of a tool that is only a schema."""


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, **options: Unpack[ToolOptions]
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Any = None, /, *, name: str | None = None, description: str | None = None, **options: Unpack[ToolOptions]
) -> Any:
    """Turns a function, a method or a class into a tool, as a decorator. It is called as before, with the same types.

    Args:
        function: the function, method or class.
        name: the name by which the model calls it; by default its own name.
        description: the description that the model reads; by default that of its docstring.
        options: `timeout`, `retries`, `max_result`, `concurrent`, `ends`: see `Tool`.
    """
    if function is None:
        return lambda function: Tool(function, name=name, description=description, **options)
    return Tool(function, name=name, description=description, **options)
