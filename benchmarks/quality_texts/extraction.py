"""Extraction in four schemas: flat, a nested list, an enum and a date, and facts that half of the texts do not have."""

from __future__ import annotations

import random
from typing import Any

from quality_texts.case import Case
from training.corpus import MAKERS, Filled, expand
from training.templates import TEXTS
from training.words import WordSource

COUNT = 76
"""Texts of a schema that are made from the seed, beside those written by hand."""


def _object(**members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": members, "required": [*members], "additionalProperties": False}


TEXT, WHOLE, NUMBER, FLAG = {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}
MAYBE = {"anyOf": [TEXT, {"type": "null"}]}

SCHEMAS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "flat": (
        "book",
        "title, author, year, pages",
        _object(title=TEXT, author=TEXT, year=WHOLE, pages=WHOLE),
    ),
    "nested": (
        "order",
        "customer, items (list of product, quantity), express (true or false)",
        _object(
            customer=TEXT, items={"type": "array", "items": _object(product=TEXT, quantity=WHOLE)}, express=FLAG
        ),
    ),
    "dates": (
        "invoice",
        "number, vendor, total, currency (EUR, USD or GBP), due (as YYYY-MM-DD), paid (true or false)",
        _object(
            number=TEXT, vendor=TEXT, total=NUMBER, currency={"enum": ["EUR", "USD", "GBP"]},
            due={"type": "string", "format": "date"}, paid=FLAG,
        ),
    ),
    "absent": (
        "contact",
        "name, email (null if the text has none), phone (null if the text has none)",
        _object(name=TEXT, email=MAYBE, phone=MAYBE),
    ),
}  # fmt: skip
"""Of each task: what the prompt calls the object and its members, and the schema."""

HANDWRITTEN: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "flat": [
        ("My aunt lent me Middlemarch. George Eliot wrote it in 1871, and it has 904 pages!",
         {"title": "Middlemarch", "author": "George Eliot", "year": 1871, "pages": 904}),
        ("Kokoro, 248 pages, is what Natsume Soseki gave the world in 1914.",
         {"title": "Kokoro", "author": "Natsume Soseki", "year": 1914, "pages": 248}),
        ("On the shelf: Selma Lagerlof's Jerusalem, first printed in 1901, with its 342 pages.",
         {"title": "Jerusalem", "author": "Selma Lagerlof", "year": 1901, "pages": 342}),
        ("It took her six weeks to read all 1225 pages of War and Peace, which Leo Tolstoy finished in 1869.",
         {"title": "War and Peace", "author": "Leo Tolstoy", "year": 1869, "pages": 1225}),
    ],
    "nested": [
        ("For the office of Ines Duarte: two printers and 14 staplers. Take your time.",
         {"customer": "Ines Duarte", "express": False,
          "items": [{"product": "printers", "quantity": 2}, {"product": "staplers", "quantity": 14}]}),
        ("Rush order! Pavel Horak wants 1 tent, 2 lanterns and 5 blankets.",
         {"customer": "Pavel Horak", "express": True,
          "items": [{"product": "tent", "quantity": 1}, {"product": "lanterns", "quantity": 2},
                    {"product": "blankets", "quantity": 5}]}),
        ("Amina Yusuf asked us for 9 glass bottles, by normal mail.",
         {"customer": "Amina Yusuf", "express": False, "items": [{"product": "glass bottles", "quantity": 9}]}),
        ("Send 20 chairs and 4 tables to Lorenzo Gatti, and send them by express.",
         {"customer": "Lorenzo Gatti", "express": True,
          "items": [{"product": "chairs", "quantity": 20}, {"product": "tables", "quantity": 4}]}),
    ],
    "dates": [
        ("Keller & Sons want 310.00 euros by the 3rd of May 2027 (their no. KS-118). Nobody has paid yet.",
         {"number": "KS-118", "vendor": "Keller & Sons", "total": 310.0, "currency": "EUR", "due": "2027-05-03",
          "paid": False}),
        ("Paid on time: invoice 90-4471, Brightwater Media, £2,045.50, which was due December 24, 2025.",
         {"number": "90-4471", "vendor": "Brightwater Media", "total": 2045.5, "currency": "GBP", "due": "2025-12-24",
          "paid": True}),
        ("R2207 from Osei Logistics: 18.75 USD, due 2026-09-01, settled.",
         {"number": "R2207", "vendor": "Osei Logistics", "total": 18.75, "currency": "USD", "due": "2026-09-01",
          "paid": True}),
        ("We still owe Novak Foods $640.20; the invoice is number 55310, and its last day is 11 October 2026.",
         {"number": "55310", "vendor": "Novak Foods", "total": 640.2, "currency": "USD", "due": "2026-10-11",
          "paid": False}),
    ],
    "absent": [
        ("Call Ruth Osei on 0171 555 808 after lunch.", {"name": "Ruth Osei", "email": None, "phone": "0171 555 808"}),
        ("The minutes were taken by Carlos Prado.", {"name": "Carlos Prado", "email": None, "phone": None}),
        ("Write to jw@post.example, that is Jonas Weiss. He hates the telephone.",
         {"name": "Jonas Weiss", "email": "jw@post.example", "phone": None}),
        ("Tessa Holm, tessa@holm.example, mobile 555-2231",
         {"name": "Tessa Holm", "email": "tessa@holm.example", "phone": "555-2231"}),
    ],
}  # fmt: skip


def cases(task: str) -> list[Case]:
    """The cases of one schema, in an order drawn from the seed."""
    name, fields, schema = SCHEMAS[task]
    words = WordSource(random.Random(f"quality {task}"))
    texts = [(f"hand-{i}", *each) for i, each in enumerate(HANDWRITTEN[task])]
    texts += [(f"seed-{i}", *_made(words, name)) for i in range(COUNT)]
    random.Random(task).shuffle(texts)
    ask = f"Extract the {name} from the text as JSON: {fields}.\nText: "
    return [Case(task, key, ask + text, schema, gold) for key, text, gold in texts]


def _made(words: WordSource, name: str) -> tuple[str, dict[str, Any]]:
    filled: Filled = MAKERS[name](words)
    value, extra = filled
    text = extra["text"] if "text" in extra else expand(words.rng, words.rng.choice(TEXTS[name]))
    return text.format(**(value | extra)) if "text" not in extra else text, value
