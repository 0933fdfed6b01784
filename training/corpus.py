"""The synthetic corpus: prompts with their answers, drawn from a seed."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from structgen.demo.tasks import TASKS, compose
from training import templates
from training.words import ADJECTIVES, DOMAINS, JOBS, LABELS, NOUNS, SKILLS, WordSource, syllables

CHOICE = re.compile(r"\[([^\[\]]*)\]")
CURRENCY_MARKS = {"EUR": "€", "USD": "$", "GBP": "£"}
CURRENCY_NAMES = {"EUR": "euros", "USD": "dollars", "GBP": "pounds"}

Values = dict[str, Any]
Filled = tuple[Values, Values]
"""The object of the answer, and the values only the text's template uses."""


@dataclass(frozen=True, slots=True)
class Example:
    """One prompt with its answer.

    Attributes:
        task: a name in `TASKS`, or `record` for a drill with invented fields.
        prompt: everything before the answer.
        answer: what `json.dumps(value, ensure_ascii=False)` writes.
    """

    task: str
    prompt: str
    answer: str


def expand(rng: random.Random, template: str) -> str:
    """Resolves every `[a|b]`, innermost first."""
    while match := CHOICE.search(template):
        choice = rng.choice(match[1].split("|"))
        template = template[: match.start()] + choice + template[match.end() :]
    return template


def spoken_date(rng: random.Random, iso: str) -> str:
    """An ISO date as people write it; half of the time as it is."""
    if rng.random() < 0.5:
        return iso
    year, month, day = iso.split("-")
    name = templates.MONTHS[int(month) - 1]
    return f"{int(day)} {name} {year}" if rng.random() < 0.5 else f"{name} {int(day)}, {year}"


def enumerate_words(rng: random.Random, parts: list[str]) -> str:
    """A list in prose: `a, b and c`."""
    if len(parts) == 1:
        return parts[0]
    joint = rng.choice([" and ", " and ", ", "])
    return ", ".join(parts[:-1]) + joint + parts[-1]


def _person(words: WordSource) -> Filled:
    value = {"name": words.name(), "age": words.rng.randint(18, 99), "city": words.city()}
    return value, {"job": words.pick(JOBS)}


def _resident(words: WordSource) -> Filled:
    pattern = words.pick(["#####", "#####", "####", "@@# #@@", "@# #@@"])
    address = {"street": words.street(), "city": words.city(), "postcode": words.code(pattern)}
    return {"name": words.name(), "job": words.pick(JOBS), "address": address}, dict(address)


def _meeting(words: WordSource) -> Filled:
    maker = words.first if words.rng.random() < 0.7 else words.name
    people = words.sample(maker, 1, 4)
    value = {"title": words.event(), "date": words.date(), "time": words.time(), "attendees": people}
    extra = {
        "people": enumerate_words(words.rng, people),
        "date_text": spoken_date(words.rng, str(value["date"])),
    }
    return value, extra


def _order(words: WordSource) -> Filled:
    rng = words.rng
    products = words.sample(words.product, 1, 3)
    items: list[Values] = [{"product": product, "quantity": rng.randint(1, 30)} for product in products]
    express = rng.random() < 0.5
    style = rng.choice(["{q} {p}", "{q} {p}", "{q} x {p}", "{q}x {p}", "{p} ({q})"])
    texts = [style.format(q=_quantity(rng, item["quantity"]), p=item["product"]) for item in items]
    extra = {
        "items_text": enumerate_words(rng, texts),
        "how": expand(rng, rng.choice(templates.EXPRESS[express])),
        "Delivery": expand(rng, rng.choice(templates.DELIVERY[express])),
    }
    return {"customer": words.name(), "items": items, "express": express}, extra


def _quantity(rng: random.Random, quantity: int) -> str:
    spelled = quantity < len(templates.NUMBERS) and rng.random() < 0.15
    return templates.NUMBERS[quantity] if spelled else str(quantity)


def _review(words: WordSource) -> Filled:
    rng = words.rng
    sentiment = rng.choice(list(templates.OPINIONS))
    rating = {"positive": [4, 5], "negative": [1, 2], "neutral": [3, 3]}[sentiment][rng.randint(0, 1)]
    recommend = {"positive": True, "negative": False}.get(sentiment, rng.random() < 0.5)
    value = {"product": words.product(), "sentiment": sentiment, "rating": rating, "recommend": recommend}
    extra = {
        "opinion": rng.choice(templates.OPINIONS[sentiment]),
        "advice": rng.choice(templates.ADVICE[recommend]),
    }
    return value, {name: expand(rng, text) for name, text in extra.items()}


def _flight(words: WordSource) -> Filled:
    origin, destination = words.sample(words.city, 2, 2)
    value = {"passenger": words.name(), "origin": origin, "destination": destination, "date": words.date()}
    seat = f"{words.rng.randint(1, 45)}{words.rng.choice('ABCDEF')}"
    return value | {"seat": seat}, {"date_text": spoken_date(words.rng, str(value["date"]))}


def _invoice(words: WordSource) -> Filled:
    rng = words.rng
    currency, paid = rng.choice(list(CURRENCY_MARKS)), rng.random() < 0.5
    value: Values = {
        "number": words.code(words.pick(["INV-####", "####-##", "@@-####", "#####", "R####"])),
        "vendor": words.company(),
        "total": words.cents(5, words.rng.choice([100, 3000])),
        "currency": currency,
        "due": words.date(),
        "paid": paid,
    }
    extra = {
        "money": money(rng, value["total"], currency),
        "date_text": spoken_date(rng, str(value["due"])),
        "state": rng.choice(templates.STATES[paid]),
    }
    return value, extra


def money(rng: random.Random, amount: float, currency: str) -> str:
    """An amount as people write it."""
    digits = f"{amount:.2f}"
    forms = (
        f"{digits} {currency}",
        f"{CURRENCY_MARKS[currency]}{digits}",
        f"{digits} {CURRENCY_NAMES[currency]}",
    )
    return rng.choice(forms)


def _job(words: WordSource) -> Filled:
    rng = words.rng
    skills, remote = words.sample(lambda: rng.choice(SKILLS), 1, 4), rng.random() < 0.5
    salary = words.integer(20, 190) * 1000 + rng.choice([0, 0, 500, rng.randint(0, 999)])
    value = {
        "title": words.role(),
        "company": words.company(),
        "salary": salary,
        "remote": remote,
        "skills": skills,
    }
    extra = {
        "salary_text": rng.choice(
            [str(salary), str(salary), f"{salary:,}", f"{salary} {rng.choice(['euros', 'EUR', 'USD'])}"]
        ),
        "skills_text": enumerate_words(rng, skills),
        "place": expand(rng, rng.choice(templates.PLACES[remote])),
    }
    return value, extra


def _ticket(words: WordSource) -> Filled:
    rng = words.rng
    category, priority = rng.choice(list(templates.PROBLEMS)), rng.choice(list(templates.PRESSURES))
    extra = {
        "problem": expand(rng, rng.choice(templates.PROBLEMS[category])).replace("?.", "?"),
        "pressure": expand(rng, rng.choice(templates.PRESSURES[priority])).replace("?.", "?"),
    }
    return {"customer": words.name(), "category": category, "priority": priority}, extra


def _contact(words: WordSource) -> Filled:
    rng = words.rng
    name, has_email, has_phone = words.name(), rng.random() < 0.7, rng.random() < 0.7
    local = re.sub(r"[^a-z]+", rng.choice([".", "_", ""]), name.lower())
    email = f"{local}@{rng.choice(DOMAINS)}" if has_email else None
    phone = words.code(rng.choice(["### ####", "+## ### ####", "0### ######", "###-###-####"])) if has_phone else None
    parts = [name]
    if email:
        parts.append(expand(rng, "[mail|email|write to|e-mail:|reach me at|] ") + email)
    if phone:
        parts.append(expand(rng, "[phone|call|tel.|mobile|phone:|or call] ") + phone)
    head = expand(rng, "[|Contact: |Please contact |You can reach |For questions: |Kind regards, ]")
    text = head + rng.choice([", ", ", ", "; ", " - "]).join(parts).replace("  ", " ") + "."
    return {"name": name, "email": email, "phone": phone}, {"text": text}


def _reading(words: WordSource) -> Filled:
    rng = words.rng
    alarm = rng.random() < 0.5
    station = words.city() + rng.choice(["", "", f" {rng.randint(1, 20)}", " North", " Airport", " Harbour"])
    temperature = rng.randint(-250, 420) / 10
    value = {"station": station, "temperature": temperature, "humidity": rng.randint(10, 99), "alarm": alarm}
    return value, {"alert": expand(rng, rng.choice(templates.ALERTS[alarm]))}


def _book(words: WordSource) -> Filled:
    rng = words.rng
    value = {
        "title": words.book(),
        "author": words.name(),
        "year": rng.randint(1850, 2026),
        "pages": words.integer(60, 999),
    }
    return value, {"title": f'"{value["title"]}"' if rng.random() < 0.3 else value["title"]}


def tool_arguments(words: WordSource, tool: str) -> Filled:
    """The arguments of a call of a tool, and what its text has besides."""
    rng = words.rng
    if tool == "get_weather":
        return {"city": words.city(), "unit": rng.choice(["celsius", "fahrenheit"])}, {}
    if tool == "set_alarm":
        return {"time": words.time(), "label": words.pick(LABELS)}, {}
    if tool == "send_message":
        return {"to": rng.choice([words.first, words.name])(), "text": _message(words)}, {}
    if tool == "play_music":
        shuffle = rng.random() < 0.5
        mix = expand(rng, rng.choice(templates.MIXES[shuffle]))
        return {"artist": rng.choice([words.name, words.book])(), "shuffle": shuffle}, {"mix": mix}
    source, target = rng.sample(list(CURRENCY_MARKS), 2)
    return {"amount": words.cents(1, 900), "source": source, "target": target}, {}


def _message(words: WordSource) -> str:
    values = {"time": words.time(), "city": words.city(), "product": words.product(), "first": words.first()}
    return expand(words.rng, words.rng.choice(templates.MESSAGES)).format(**values)


MAKERS: dict[str, Callable[[WordSource], Filled]] = {
    "person": _person,
    "resident": _resident,
    "meeting": _meeting,
    "order": _order,
    "review": _review,
    "flight": _flight,
    "invoice": _invoice,
    "job": _job,
    "ticket": _ticket,
    "contact": _contact,
    "reading": _reading,
    "book": _book,
}


def tool_example(words: WordSource, *, full: bool) -> Example:
    """A tool call; unless `full`, the prompt names a random selection of the tools."""
    rng = words.rng
    offered = list(TASKS["tool"].fields)
    tool = rng.choice(offered)
    if not full:
        offered = rng.sample(offered, rng.randint(2, len(offered)))
        offered = offered if tool in offered else [*offered[1:], tool]
    value, extra = tool_arguments(words, tool)
    text = expand(rng, rng.choice(templates.TEXTS[tool])).format(**(value | extra))
    prompt = compose("Call a tool", [TASKS["tool"].fields[name] for name in offered], text)
    return Example("tool", prompt, dumps({"tool": tool, "arguments": value}))


def extraction_example(words: WordSource, name: str, *, full: bool) -> Example:
    """An extraction; unless `full`, some fields may be missing or reordered and the command is varied."""
    rng = words.rng
    value, extra = MAKERS[name](words)
    text = extra["text"] if name == "contact" else _text(words, name, value | extra)
    fields, command, label = list(value), "Extract the", "Text"
    if not full:
        text = _distract(words, text)
        command, label = rng.choice(templates.COMMANDS), rng.choice(templates.LABELS)
        if rng.random() < 0.3:
            fields = rng.sample(fields, rng.randint(1, len(fields)))
    described: Mapping[str, str] = TASKS[name].fields
    prompt = compose(f"{command} {name}", [described[field] for field in fields], text, label)
    return Example(name, prompt, dumps({field: value[field] for field in fields}))


def _text(words: WordSource, name: str, values: Values) -> str:
    template = words.rng.choice(templates.TEXTS[name])
    return expand(words.rng, template).format(**values)


def _distract(words: WordSource, text: str) -> str:
    if words.rng.random() < 0.7:
        return text
    values = {
        "n": words.rng.randint(2, 999),
        "other": words.name(),
        "otherdate": words.date(),
        "othercity": words.city(),
    }
    sentence = expand(words.rng, words.rng.choice(templates.DISTRACTORS)).format(**values)
    return f"{text} {sentence}" if words.rng.random() < 0.5 else f"{sentence} {text}"


def record_example(words: WordSource) -> Example:
    """A drill: invented or common field names with any values, which teaches copying and nothing else."""
    rng = words.rng
    keys = words.sample(lambda: rng.choice([syllables(rng), rng.choice(NOUNS), rng.choice(ADJECTIVES)]), 1, 4)
    makers = (
        words.first,
        words.last,
        words.city,
        words.date,
        words.product,
        lambda: words.code("@@###"),
        words.name,
    )
    value: Values = {}
    for key in keys:
        draw = rng.random()
        value[key] = rng.randint(0, 5000) if draw < 0.25 else rng.choice(makers)()
    shown = rng.sample(keys, len(keys))
    joint, mark = rng.choice(["; ", ", ", " / "]), rng.choice([": ", " is ", " = ", " "])
    text = joint.join(f"{key}{mark}{value[key]}" for key in shown)
    wanted = keys if rng.random() < 0.6 else rng.sample(keys, rng.randint(1, len(keys)))
    return Example("record", compose("Extract the record", wanted, text), dumps({key: value[key] for key in wanted}))


def dumps(value: Values) -> str:
    """The answer's spelling: `json.dumps`' default layout, non-ASCII characters as they are."""
    return json.dumps(value, ensure_ascii=False)


def draw_example(words: WordSource, *, records: float = 0.15, full: bool = False) -> Example:
    """An example of a random task.

    Args:
        words: the world to draw from.
        records: share of copying drills.
        full: every field of the task, in its order, without distractors: the prompt that `Task.prompt` writes.
    """
    if words.rng.random() < records:
        return record_example(words)
    name = words.rng.choice(list(TASKS))
    if name == "tool":
        return tool_example(words, full=full)
    return extraction_example(words, name, full=full)
