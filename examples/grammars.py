"""Languages other than JSON: sums, a part of SQL, commands of a robot; and an answer made of several of them."""

import structgen as sg
from structgen.testing import scripted  # a model that wants to say this; any other works alike

SUMS = sg.Lark("""
    start: sum
    sum: sum "+" product | sum "-" product | product
    product: product "*" atom | product "/" atom | atom
    atom: NUMBER | NAME | "(" sum ")" | "-" atom
    %import common.NUMBER
    %import common.CNAME -> NAME
    %ignore " "
""")

# Keywords in either case; a name cannot be a keyword. The language can only read, not write.
SQL = sg.Lark("""
    start: "select"i columns "from"i NAME where? order? limit?
    columns: "*" | column ("," column)*
    column: NAME | NAME "(" ("*" | NAME) ")"
    where: "where"i condition (("and"i | "or"i) condition)*
    condition: NAME OPERATOR value
    value: NUMBER | STRING
    order: "order"i "by"i NAME ("asc"i | "desc"i)?
    limit: "limit"i INT
    OPERATOR: "<=" | ">=" | "<>" | "=" | "<" | ">"
    STRING: /'[^'\\n]*'/
    NAME: /[A-Za-z_][A-Za-z_0-9]*/
    %import common.INT
    %import common.NUMBER
    %ignore " "
""")

ROBOT = sg.Lark("""
    start: command (";" command)*
    command: "go" DIRECTION INT "m" | "turn" ("left" | "right") | "repeat" INT "{" start "}"
    DIRECTION: "north" | "south" | "east" | "west"
    %import common.INT
    %ignore " "
""")

print(sg.generate(scripted("2 * (width + 3.5) - x"), "The fence?", SUMS))
print(sg.generate(scripted("select name, count(*) from users where age >= 21 and city = 'Lyon' limit 5"), "Who?", SQL))
print(sg.generate(scripted("repeat 4 { go north 2 m; turn left }"), "A square?", ROBOT))

# Near the end of the budget, open brackets are closed: a sum is never cut off.
run = sg.generate(scripted("((((((((((1 + x"), "?", SUMS, limits=sg.Limits(16), details=True)
print(run.text, run.finish)

# Parts of one answer: steps of several kinds, each on a line, then a value. A stream gives the text as it comes.
step = sg.Union(sg.Sequence("sum: ", SUMS), sg.Sequence("query: ", SQL), sg.Sequence("note: ", sg.Text(before="\n")))
answer = sg.Sequence(sg.Repeat(step, 1, 3, separator="\n"), "\n=> ", {"type": "integer"})
says = "note: count, then double\nquery: select count(id) from users\nsum: 2 * users\n=> 84"
print("".join(event.text for event in sg.stream(scripted(says), "Twice as many?", answer)))

# A malformed grammar, or a composition with a part that is none, says so before anything runs.
for make in (lambda: sg.Lark('start: "a" word').plan(), lambda: sg.Sequence("a", 5)):
    try:
        make()
    except sg.OptionError as error:
        print(str(error).splitlines()[0])

# Output:
# 2 * (width + 3.5) - x
# select name, count(*) from users where age >= 21 and city = 'Lyon' limit 5
# repeat 4 { go north 2 m; turn left }
# ((((((( 0))))))) closed_by_budget
# note: count, then double
# query: select count(id) from users
# sum: 2 * users
# => 84
# Lark grammar, line 1: the rule 'word' is not defined
# 5 cannot be a part: expected a constraint, a text, a type or a JSON Schema
