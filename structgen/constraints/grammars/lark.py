"""Grammars in Lark's notation, with what llguidance has added to it.

A text is divided into tokens as by Lark's Earley parser with `lexer="dynamic"`: each token takes as much as it can, and
where several tokens can be read, all of them are tried.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NoReturn

from structgen.constraints.grammars import lexis
from structgen.constraints.grammars.cursor import Cursor
from structgen.constraints.grammars.modules import (
    BUNDLED,
    MAX_CHARACTERS,
    Applied,
    Module,
    applied,
    missing,
    names_in,
    source,
)  # fmt: skip
from structgen.constraints.grammars.options import RuleOptions, unescaped
from structgen.constraints.grammars.parametric import Call, Guarded, read_condition, read_value, written_out
from structgen.constraints.grammars.rules import (
    EMPTY,
    MAX_DEPTH,
    MAX_REPEATS,
    Complement,
    Embedded,
    Expression,
    Intersection,
    Language,
    Lexeme,
    Productions,
    Ref,
    either,
    literal,
    repeated,
    series,
)  # fmt: skip
from structgen.constraints.grammars.terminals import (
    concatenated,
    language_of,
    stopped,
    substrings,
    terminal_language,
)  # fmt: skip
from structgen.errors import LimitExceeded, OptionError, quoted
from structgen.parts.parts import Plan, Skips
from structgen.parts.special import Special
from structgen.regular.chardfa import CharDfa, literals
from structgen.regular.regex.charsets import folded
from structgen.regular.regex.errors import PatternError, PatternUnsupported
from structgen.regular.regex.nodes import Anchor, Assertion, Chars, Concatenation, Look, PatternNode, everywhere
from structgen.regular.regex.python import parse_python
from structgen.regular.texts import first_end
from structgen.vocabulary import special_text


def read_lark(
    text: str,
    start: str,
    plan_of: Callable[[Productions], Plan],
    json_plan: Callable[[Any], Plan],
    folders: Sequence[str] = (),
) -> Productions:
    """The rules of a grammar.

    Args:
        plan_of: gives the plan of a grammar inside this one.
        json_plan: gives the plan of a JSON Schema.
        folders: where `%import` looks for files.

    Raises:
        OptionError: it is malformed, or has what is not supported; the message names the line.
    """
    if len(text) > MAX_CHARACTERS:
        raise LimitExceeded(f"a grammar of {len(text):,} characters; the limit is {MAX_CHARACTERS:,}")
    try:
        return _LarkReader(text, start, plan_of, json_plan, folders).rules()
    except RecursionError as error:
        raise OptionError("the grammar has groups inside groups that are too deep to be read") from error


_ENDS = lexis.STATEMENTS, lexis.HEAD
_NO_EFFECT = ("no_forcing", "allow_initial_skip")
"""Options of `%llguidance` that do not change the texts here."""


class _LarkReader:
    def __init__(
        self,
        text: str,
        start: str,
        plan_of: Callable[[Productions], Plan],
        json_plan: Callable[[Any], Plan],
        folders: Sequence[str] = (),
    ) -> None:
        self._cursor, self._start = Cursor(text, "Lark", lexis.SPACES), start
        self._folders = folders
        self._plan_of, self._json_plan = plan_of, json_plan
        self._terminals: dict[str, Expression] = {}
        self._rules: dict[str, Expression] = {}
        self._options: dict[str, RuleOptions] = {}
        self._no_options = RuleOptions({}, self._cursor, 0)
        self._ignored: list[Expression] = []
        self._calls: dict[str, int] = {}
        self._parametric: set[str] = set()
        self._numbered: dict[str, int] = {}
        self._templates: dict[str, tuple[str, ...]] = {}
        self._declared = set[str]()
        self._texts: dict[str, Lexeme] = {}
        self._names: tuple[str, ...] = ()  # what the template is given that is being read
        self._depth, self._in_terminal = 0, False
        self._once = False  # may %ignore match only once in a row?

    def module(self) -> Module:
        """All definitions of the text."""
        cursor = self._cursor
        while not cursor.over:
            if cursor.text[cursor.at] == "%":
                self._statement()
            else:
                self._rule()
        return Module(self._rules, self._terminals, self._templates)

    def _library(self, path: str) -> Module | str:
        """The grammar of a path in `%import`; or why there is none."""
        text = source(path, self._folders)
        if text is None:
            return missing(path, self._folders)
        if path in BUNDLED and path not in self._folders:
            return _bundled(path)
        return _LarkReader(text, "", self._plan_of, self._json_plan, self._folders).module()

    def rules(self) -> Productions:
        """All rules of the text."""
        self.module()
        cursor = self._cursor
        for name, at in self._calls.items():
            if name not in self._rules and name not in self._terminals:
                if name in self._declared:
                    indents = "; for indentation take a rule for each depth, `block::_`" if "DENT" in name else ""
                    cursor.refuse(f"terminal {name} is declared, but has no pattern: define it{indents}", at)
                cursor.refuse(f"{'the terminal' if name.isupper() else 'the rule'} {quoted(name)} is not defined", at)
        for name, at in self._numbered.items():
            if name not in self._parametric:
                cursor.refuse(f"the rule {name} has no number, as {name}::_", at)
        rules = Productions(self._start)
        written = applied(written_out(self._rules, self._parametric), self._templates)
        todo = [self._start]
        while todo:
            key = todo.pop()
            if key in self._terminals and key not in rules.expressions:
                rules.expressions[key] = Lexeme(self._language(Ref(key)))
            elif key in written and key not in rules.expressions:
                self._add(key, written[key], rules)
                todo += names_in(rules.expressions[key])
        if self._start not in rules.expressions:
            names = ", ".join(list(self._rules)[:8]) or "none"
            raise OptionError(
                f"the grammar has no rule {quoted(self._start)} with which a text begins, define it or name another by "
                f"start=; its rules: {names}{_advice(cursor.text)}"
            )
        if self._ignored:
            rules.skips = Skips(tuple(map(self._language, self._ignored)))
            rules.once = self._once
        return rules

    def _add(self, key: str, expression: Expression, rules: Productions) -> None:
        """Adds a rule with its options."""
        name = key.partition("::")[0]
        options = self._options.get(name, self._no_options)
        rules.expressions[key] = self._lazy(name, expression, rules) if options.of_terminal else expression
        if "capture" in options.given:
            rules.captures[key] = options.text("capture") or name
        limits = options.limits()
        if limits is not None:
            rules.limits[key] = limits

    def _statement(self) -> None:
        """`%import`, `%ignore`, `%llguidance`."""
        cursor = self._cursor
        imported = cursor.sees(lexis.IMPORT)
        if imported:
            self._import(imported)
            cursor.take(lexis.IMPORT)
            return
        change = cursor.take(lexis.CHANGE)
        if change:
            self._rule(change[1])
            return
        at, word = cursor.at, cursor.take(lexis.STATEMENT)
        if word is None or word[1] not in ("ignore", "llguidance", "declare"):
            name = cursor.text[at : at + 20].split()[0]
            known = "%import common.NAME, %ignore, %declare, %override, %extend and %llguidance are"
            cursor.refuse(f"{quoted(name)} is not supported; {known}", at)
        if word[1] == "declare":
            while not cursor.sees(lexis.HEAD) and (declared := cursor.take(lexis.WORD)):
                self._declared.add(declared[0])
            return
        if word[1] == "ignore":
            self._in_terminal = True
            self._ignored.append(self._alternatives())
            self._in_terminal = False
        else:
            self._require_options(cursor.json("%llguidance"), at)

    def _require_options(self, options: Any, at: int) -> None:
        if not isinstance(options, dict):
            self._cursor.refuse("%llguidance takes an object", at)
        for name, value in options.items():
            if name == "skip_repetition" and value in ("once", "repeat"):
                self._once = value == "once"
            elif name == "ignore_once" and isinstance(value, bool):
                self._once = value
            elif not isinstance(value, bool) or (value and name not in _NO_EFFECT):
                self._cursor.refuse(f"{quoted(name)}: {quoted(value)} of %llguidance is not supported", at)

    def _import(self, match: re.Match[str]) -> None:
        path = match[1] or match[3]
        names = re.findall(r"\w+", match[2]) if match[2] else [match[4]]
        module = self._library(path)
        if isinstance(module, str):
            self._cursor.refuse(module)
        for name in names:
            if name not in module.rules and name not in module.terminals:
                self._cursor.refuse(f"the grammar {path} has no {name}")
            found = module.taken(name, match[5] or name, path)
            self._rules |= found.rules
            self._terminals |= found.terminals
            self._templates |= found.templates

    def _rule(self, change: str = "") -> None:
        """A rule or a terminal. `change`: does it `override` or `extend` the one that was imported?"""
        cursor = self._cursor
        at, head = cursor.at, cursor.take(lexis.HEAD)
        if head is None:
            found = f"found {cursor.rest()}{_advice(cursor.text)}"
            cursor.refuse(f"expected a rule, as name: ..., or a terminal, as NAME: ..., {found}")
        name = head["name"].lstrip("?!")
        terminal = name.upper() == name
        known = self._terminals if terminal else self._rules
        if (name in known) != bool(change):
            cursor.refuse(f"{name} is {'not defined' if change else 'defined a second time'}", at)
        if head["attributes"]:
            if terminal:
                cursor.refuse(f"the terminal {name} has options: they are for rules, whose names are in lower case", at)
            self._options[name] = RuleOptions.read(head["attributes"][1:-1], cursor, at)
        options = self._options.get(name, self._no_options).of_terminal
        if head["parameter"]:
            if terminal or options:
                cursor.refuse(f"{name}::_ is a rule, with no option but capture and temperature", at)
            self._parametric.add(name)
        if head["parameters"]:
            self._templates[name] = tuple(re.findall(r"\w+", head["parameters"]))
        self._in_terminal, self._names = terminal or bool(options), self._templates.get(name, ())
        before = known.get(name)
        known[name] = EMPTY
        body = self._alternatives()
        known[name] = either([before, body]) if change == "extend" and before is not None else body
        self._names = ()
        if not (cursor.over or cursor.text[cursor.at] == "%" or cursor.sees(lexis.HEAD)):
            cursor.refuse(f"expected the end of {name}, found {cursor.rest()}")
        self._in_terminal = False

    def _alternatives(self) -> Expression:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._cursor.refuse(f"more than {MAX_DEPTH} groups inside each other")
        options = [self._alternative()]
        while self._cursor.accept("|"):
            options.append(self._alternative())
        self._depth -= 1
        return either(options)

    def _alternative(self) -> Expression:
        item, cursor = self._sequence(), self._cursor
        if not cursor.take(lexis.IF):
            return item
        return Guarded(item, self._parameter(read_condition))  # type: ignore[return-value]

    def _parameter(self, read: Callable[[str, int], tuple[Any, int]]) -> Any:
        """A number, or a condition, of a parametric rule."""
        cursor = self._cursor
        try:
            value, cursor.at = read(cursor.text, cursor.at)
        except ValueError as error:
            cursor.refuse(f"{error}, found {cursor.rest()}")
        cursor.skip()
        return value

    def _sequence(self) -> Expression:
        cursor, items = self._cursor, list[Expression]()
        while not (cursor.over or cursor.text[cursor.at] in "|)]&" or any(map(cursor.sees, _ENDS))):
            if not cursor.take(lexis.ALIAS):
                items.append(self._item())
        left = series(items)
        if cursor.over or cursor.text[cursor.at] != "&":
            return left
        if not self._in_terminal:
            cursor.refuse("& is for terminals only, whose names are in upper case")
        cursor.accept("&")
        return Intersection(left, self._sequence())

    def _item(self) -> Expression:
        cursor = self._cursor
        if self._in_terminal and cursor.text.startswith("~", cursor.at):
            cursor.accept("~")
            item: Expression = Complement(self._atom())
        else:
            item = self._atom()
        while not cursor.over:
            sign = cursor.text[cursor.at]
            if sign in "*+?" and not (sign == "?" and cursor.sees(lexis.HEAD)):
                cursor.accept(sign)
                item = repeated(item, int(sign == "+"), 1 if sign == "?" else None)
                continue
            at, bounds = cursor.at, cursor.take(lexis.BOUNDS)
            if bounds is None:
                break
            item = repeated(item, *self._bounds(bounds, at))
        return item

    def _bounds(self, bounds: re.Match[str], at: int) -> tuple[int, int | None]:
        if bounds[4]:
            minimum, maximum = int(bounds[4]), int(bounds[6] or bounds[4])
        else:
            minimum = int(bounds[1] or 0)
            given = int(bounds[3]) if bounds[3] else None
            maximum = given if bounds[2] else minimum  # type: ignore[assignment]
            if not (bounds[1] or bounds[3]):
                self._cursor.refuse("expected a number in {m,n}", at)
        if max(minimum, maximum or 0) > MAX_REPEATS or (maximum is not None and maximum < minimum):
            self._cursor.refuse(f"the bounds {bounds[0].strip()}: expected m <= n <= {MAX_REPEATS:,}", at)
        return minimum, maximum

    def _atom(self) -> Expression:
        cursor = self._cursor
        if cursor.over:
            cursor.refuse("expected a text, a pattern, a group or a name, found the end")
        if cursor.accept("("):
            inner = self._alternatives()
            cursor.expect(")", "at the end of a group")
            return inner
        if cursor.accept("["):
            inner = self._alternatives()
            cursor.expect("]", "at the end of an optional group")
            return repeated(inner, 0, 1)
        for pattern, read in ((lexis.TEXT, self._text), (lexis.PATTERN, self._pattern), (lexis.TOKEN, self._special)):
            at, match = cursor.at, cursor.take(pattern)
            if match:
                return read(match, at)
        if cursor.text[cursor.at] == "%":
            return self._inline()
        if cursor.text[cursor.at] == "@":
            cursor.refuse("a grammar of another name, as @name, is not supported; write it with %lark or %json")
        word = cursor.sees(lexis.WORD)
        if word is None:
            cursor.refuse(f"expected a text, a pattern, a group or a name, found {cursor.rest()}")
        if self._in_terminal and word[0].upper() != word[0]:
            cursor.refuse(f"the rule {quoted(word[0])} cannot be used in a terminal")
        if word[0] not in self._names:
            self._calls.setdefault(word[0], cursor.at)
        cursor.take(lexis.WORD)
        if cursor.accept("::"):
            self._numbered.setdefault(word[0], cursor.at)
            return Call(word[0], self._parameter(read_value))  # type: ignore[return-value]
        if cursor.text.startswith("{", cursor.at) and not cursor.sees(lexis.BOUNDS):
            cursor.accept("{")
            given = [self._atom()]
            while cursor.accept(","):
                given.append(self._atom())
            cursor.expect("}", "after the arguments of a template")
            return Applied(word[0], tuple(given))  # type: ignore[return-value]
        return Ref(word[0])

    def _text(self, match: re.Match[str], at: int) -> Expression:
        first = unescaped(self._cursor, match[1], at)
        until = self._cursor.take(lexis.RANGE)
        if until:
            last = unescaped(self._cursor, until[1], at)
            if len(first) != 1 or len(last) != 1 or last < first:
                self._cursor.refuse('a range is written with two characters in order, as "a".."z"', at)
            return self._lexed(Chars(((ord(first), ord(last)),)))
        if not match[2]:
            if not first or self._in_terminal:
                return literal(first) if first else EMPTY
            if first not in self._texts:
                self._texts[first] = Lexeme(literals((first,)))
            return self._texts[first]
        return self._lexed(Concatenation(tuple(Chars(folded(((ord(char), ord(char)),))) for char in first)))

    def _pattern(self, match: re.Match[str], at: int) -> Expression:
        letters = "".join(sorted(set(match[2]) - {"u"}))
        if set(letters) - set("ims"):
            self._cursor.refuse(f"the flag {letters} of a pattern is not supported", at)
        source = match[1].replace("\\/", "/")
        if re.search(r"\[[^]]*&&|\[\[:\w+:\]", source):
            self._cursor.refuse(f"the pattern {match[0].strip()}: && and [:name:] in a class are not supported", at)
        try:
            tree = parse_python(f"(?{letters}:{source})" if letters else source)
            kinds = {type(node) for node in everywhere(tree)}
            if Assertion in kinds and Look not in kinds and not self._anchored(tree):
                raise OptionError("^, $ and \\b are not supported, as they depend on the text around the token")
            return self._lexed(tree)
        except (OptionError, PatternError, PatternUnsupported) as error:
            self._cursor.refuse(f"the pattern {quoted(match[0].strip())}: {error}", at)

    def _anchored(self, tree: PatternNode) -> bool:
        """Are its assertions just ^ at the beginning and $ at the end? In llguidance's dialect they say nothing."""
        places = [node.place for node in everywhere(tree) if isinstance(node, Assertion)]
        own = {Assertion(Anchor.START): 0, Assertion(Anchor.END): -1}
        items = tree.items if isinstance(tree, Concatenation) else (tree,)
        ends = [items[place] == anchor for anchor, place in own.items()]
        return sum(ends) == len(places) and bool(lexis.EXTENSIONS.search(self._cursor.text))

    def _special(self, match: re.Match[str], at: int) -> Expression:
        if self._in_terminal:
            self._cursor.refuse(f"the special token {match[0]} cannot be used in a terminal", at)
        name = match[0].strip()
        if not name.startswith("<["):
            return Embedded(Special(name, special_text(name)))
        if not lexis.NUMBERS.fullmatch(name):
            self._cursor.refuse(f"{name}: any token at all, and any token but some, are not supported", at)
        pairs = [each.partition("-") for each in re.sub(r"[<>\[\]\s]", "", name).split(",")]
        ids = tuple((int(first), int(last or first)) for first, _, last in pairs)
        if any(first > last for first, last in ids):
            self._cursor.refuse(f"{name}: the last number of a range is smaller than the first", at)
        return Embedded(Special(name, special_text(name), ids=ids))

    def _inline(self) -> Expression:
        """`%json`, `%regex` or `%lark` in the middle of a rule."""
        cursor = self._cursor
        at, word = cursor.at, cursor.take(lexis.STATEMENT)
        kind = word[1] if word else ""
        if kind == "regex":
            language = substrings(cursor.json("%regex"), lambda reason: cursor.refuse(reason, at))
            return Language(language) if self._in_terminal else Lexeme(language)
        if self._in_terminal:
            cursor.refuse(f"%{kind} cannot be used in a terminal, or with options but capture and temperature", at)
        if kind == "json":
            return Embedded(self._json_plan(cursor.json("%json")))
        if kind != "lark":
            cursor.refuse(f"%{kind} is not supported; %json, %regex and %lark are", at)
        inner = _LarkReader(cursor.braced("%lark", at), "start", self._plan_of, self._json_plan).rules()
        return Embedded(self._plan_of(inner))

    # The meaning of terminals, once all names are known.

    def _lexed(self, tree: PatternNode) -> Expression:
        """A text or pattern: a token of its own in a rule, a part of one in a terminal."""
        return tree if self._in_terminal else Lexeme(language_of(tree))

    def _language(self, expression: Expression) -> CharDfa:
        """The texts of a terminal."""
        return terminal_language(expression, self._terminals)

    def _lazy(self, name: str, expression: Expression, rules: Productions) -> Expression:
        """A rule with options, which is one terminal."""
        options = self._options[name]
        language = self._language(expression)
        for option in ("suffix", "stop"):
            stop = options.stop(option)
            if stop is None:
                continue
            end = self._language(stop)
            if option == "stop":
                return Language(stopped(language, end))
            language, rules.stops[name] = concatenated(language, end), end
            if "stop_capture" in options.given:
                rules.stop_captures[name] = options.text("stop_capture")
        lazy = {"lazy", "suffix"} & options.given.keys()
        return Lexeme(first_end(language), lazy=True) if lazy else Lexeme(language)


def _advice(text: str) -> str:
    return "; the sign ::= of GBNF is written : in Lark's syntax, and root is called start" if "::=" in text else ""


@lru_cache(maxsize=len(BUNDLED))
def _bundled(path: str) -> Module:
    """A grammar that comes with Lark."""

    def refuse(given: Any) -> NoReturn:
        raise AssertionError("a grammar that comes with Lark has nothing of the dialect")

    return _LarkReader(source(path, ()) or "", "", refuse, refuse).module()
