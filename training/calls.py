"""Examples of the second stage of training: calls of tools as the chat template writes them, and rendered schemas."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from structgen.demo.tasks import (
    TASKS,
    AlarmArguments,
    ConvertArguments,
    MessageArguments,
    MusicArguments,
    WeatherArguments,
)  # fmt: skip
from structgen.rendering import schema_text
from training import templates
from training.corpus import Example, Values, expand, extraction_example, tool_arguments
from training.words import NOUNS, WordSource, syllables

TOOLS = {
    "get_weather": WeatherArguments,
    "set_alarm": AlarmArguments,
    "send_message": MessageArguments,
    "convert_currency": ConvertArguments,
    "play_music": MusicArguments,
}
"""The arguments of each tool that the model knows."""

JOINTS = (" ", " ", " Also: ", " And then: ", " After that: ")
"""What stands between two requests in one text."""

VERBS = ("find", "book", "open", "close", "add", "remove", "get", "show", "start", "stop", "check", "order")
KEYS = ("name", "city", "date", "code", "count", "product", "title", "number", "year", "place", "person", "price")
"""WordSource of invented tools and of their arguments."""


def tools_prompt(offered: Mapping[str, list[str]], text: str) -> str:
    """The prompt that the chat template writes for a text of the user and tools.

    Args:
        offered: the tools' names, each with the names of its arguments.
        text: what the user says.
    """
    listed = ", ".join(f"{name} ({', '.join(members)})" for name, members in offered.items())
    return f"Call tools: {listed}.\nText: {text}\nJSON: "


def written_calls(calls: list[tuple[str, Values]]) -> str:
    """Calls as the chat template writes them."""
    return json.dumps([{"tool": name, "arguments": value} for name, value in calls], ensure_ascii=False)


def calls_example(words: WordSource) -> Example:
    """One or two requests in one text, and the calls; of some, what the tools gave and the answer that repeats it."""
    rng = words.rng
    if rng.random() < 0.2:
        return invented_call(words)
    count = 1 if rng.random() < 0.5 else 2
    called = rng.sample(list(TOOLS), count)
    others = [name for name in TOOLS if name not in called]
    names = called + rng.sample(others, rng.randint(0 if count == 2 else 1, len(others)))
    offered = {name: list(TOOLS[name].model_fields) for name in rng.sample(names, len(names))}
    calls, texts = list[tuple[str, Values]](), list[str]()
    for name in called:
        value, extra = tool_arguments(words, name)
        calls.append((name, value))
        texts.append(expand(rng, rng.choice(templates.TEXTS[name])).format(**(value | extra)))
    prompt = tools_prompt(offered, rng.choice(JOINTS).join(texts))
    if rng.random() < 0.8:
        return Example("calls", prompt, written_calls(calls))
    results = [RESULTS[name](words, value) for name, value in calls]
    given = "".join(f"\nResult: {result}" for result in results)
    return Example("results", f"{prompt}{written_calls(calls)}<|eos|>{given}\nJSON: ", " ".join(results))


def invented_call(words: WordSource) -> Example:
    """A call of a tool that only this example has, so that the model learns to take names from the prompt."""
    rng = words.rng
    tools = {
        f"{verb}_{noun}": words.sample(lambda: rng.choice([*KEYS, rng.choice(NOUNS), syllables(rng)]), 1, 3)
        for verb, noun in zip(rng.sample(VERBS, 3), rng.sample(NOUNS, 3), strict=True)
    }
    name = rng.choice(list(tools))
    makers = (words.first, words.last, words.city, words.date, words.product, lambda: words.code("@@###"), words.name)
    value: Values = {key: rng.randint(0, 5000) if rng.random() < 0.25 else rng.choice(makers)() for key in tools[name]}
    joint, mark = rng.choice(["; ", ", ", " and "]), rng.choice([": ", " is ", " = ", " "])
    said = joint.join(f"{key}{mark}{each}" for key, each in value.items())
    verb, noun = name.split("_")
    text = f"{verb.capitalize()} {rng.choice(['the', 'a', 'one'])} {noun}{rng.choice([', ', ': ', ' with '])}{said}."
    return Example("calls", tools_prompt(tools, text), written_calls([(name, value)]))


RESULTS: dict[str, Callable[[WordSource, Values], str]] = {
    "get_weather": lambda words, value: (
        f"{value['city']}: {words.rng.choice(['sunny', 'rain', 'cloudy', 'snow', 'windy'])}, {words.rng.randint(-9, 39)}"
    ),
    "set_alarm": lambda words, value: f"alarm at {value['time']}",
    "send_message": lambda words, value: f"sent to {value['to']}",
    "convert_currency": lambda words, value: f"{words.cents(1, 900)} {value['target']}",
    "play_music": lambda words, value: f"playing {value['artist']}",
}
"""What a tool might give."""


def schema_example(words: WordSource) -> Example:
    """An extraction whose prompt shows the schema: behind the trained prompt or the bare text, as text or as chat."""
    rng = words.rng
    name = rng.choice([name for name in TASKS if name != "tool"])
    example = extraction_example(words, name, full=True)
    prompt = example.prompt
    if rng.random() < 0.5:
        prompt = prompt.split("\nText: ", 1)[1]
    if rng.random() < 0.5:
        shown = f"{prompt}\n\n{schema_text(TASKS[name].model)}\n"
    else:
        prompt = prompt.removesuffix("\nJSON: ")
        shown = f"{prompt}\n\n{schema_text(TASKS[name].model)}\nJSON: "
    return Example("schema", shown, example.answer)


def arguments_of(answer: str) -> list[tuple[str, Any]]:
    """The calls of an answer that `written_calls` wrote."""
    return [(call["tool"], call["arguments"]) for call in json.loads(answer)]
