"""Grammars in Lark's syntax, each with texts that begin the mutations."""

from __future__ import annotations

ARITHMETIC = """
    start: expr
    ?expr: expr "+" term | expr "-" term | term
    ?term: term "*" power | term "/" power | power
    ?power: factor "**" power | factor
    ?factor: NUMBER | NAME | NAME "(" [expr ("," expr)*] ")" | "(" expr ")" | "-" factor
    %import common.NUMBER
    %import common.CNAME -> NAME
    %import common.WS
    %import common.C_COMMENT
    %ignore WS
    %ignore C_COMMENT
"""

SQL = r"""
    start: select ";"?
    select: "SELECT"i "DISTINCT"i? columns "FROM"i tables [where] [group] [order] [limit]
    columns: "*" | column ("," column)*
    column: expr ["AS"i NAME]
    tables: table ("," table)* join*
    table: NAME ["AS"i NAME] | "(" select ")" "AS"i NAME
    join: ("INNER"i | "LEFT"i)? "JOIN"i table "ON"i expr
    where: "WHERE"i expr
    group: "GROUP"i "BY"i expr ("," expr)* ["HAVING"i expr]
    order: "ORDER"i "BY"i key ("," key)*
    key: expr ("ASC"i | "DESC"i)?
    limit: "LIMIT"i INT
    ?expr: expr "OR"i conjunction | conjunction
    ?conjunction: conjunction "AND"i negation | negation
    ?negation: "NOT"i negation | comparison
    ?comparison: sum | sum OPERATOR sum | sum "IS"i "NOT"i? "NULL"i | sum "IN"i "(" expr ("," expr)* ")"
               | sum "LIKE"i STRING | sum "BETWEEN"i sum "AND"i sum
    ?sum: sum ("+" | "-") product | product
    ?product: product ("*" | "/") atom | atom
    ?atom: INT | FLOAT | STRING | NAME ("." NAME)? | NAME "(" ("*" | expr ("," expr)*) ")" | "(" expr ")" | "NULL"i
    OPERATOR: "<=" | ">=" | "<>" | "!=" | "=" | "<" | ">"
    STRING: /'(''|[^'])*'/
    NAME: /[A-Za-z_][A-Za-z_0-9]*/
    %import common.INT
    %import common.FLOAT
    %import common.SQL_COMMENT
    %import common.WS
    %ignore WS
    %ignore SQL_COMMENT
"""

JSON = """
    ?start: value
    ?value: object | array | string | SIGNED_NUMBER -> number | "true" -> true | "false" -> false | "null" -> null
    array: "[" [value ("," value)*] "]"
    object: "{" [pair ("," pair)*] "}"
    pair: string ":" value
    string: ESCAPED_STRING
    %import common.ESCAPED_STRING
    %import common.SIGNED_NUMBER
    %import common.WS
    %ignore WS
"""

ROBOT = r"""
    start: (command NEWLINE)* command?
    command: "go" DIRECTION INT UNIT? -> go
           | "turn" ("left" | "right") -> turn
           | "repeat" INT "{" NEWLINE? (command NEWLINE?)* "}" -> repeat
           | "say" STRING -> say
           | WORD ":=" INT -> set
    DIRECTION: "north" | "south" | "east" | "west"
    UNIT.2: "m" | "cm"
    WORD: /\w+/
    STRING: /"[^"\n]*"/
    NEWLINE: /(\r?\n[ \t]*)+/
    %import common.INT
    %ignore /[ \t]+/
    %ignore /#[^\n]*/
"""

LEXER = r"""
    start: item+
    item: "if" A | A "in" A | LAZY | SHORT | B | "<<" | "<" "=" A | OCTAL | RAW
    A: /[a-z]+/
    B.3: /x[0-9]+/
    LAZY: /`.*?`/s
    SHORT: /!|!!!/
    OCTAL: /0[0-7]*(?!)|0o[0-7]+/
    RAW: "é" | "\u00df"i
    %ignore " "
""".replace("(?!)|", "|")
"""Where the order of alternatives matters more than the length of a match."""

CONTEXT = r"""
    start: "a" inner "c" | "b" inner "d" | "(" start ")" | list
    inner: e
    e: "e"
    list: "[" _items{"x"} "]" | "[" "]"
    _items{item}: item | _items{item} "," item
"""
"""What may follow `inner` depends on what stands before it: the LALR states do not know."""

UNICODE = r"""
    start: said{LATIN} | said{CYRILLIC} FACE
    said{letters}: letters ("," letters)* "…"
    LATIN: /[a-zà-öø-ÿ]+/i
    CYRILLIC.2: /[а-яё]+/i | "ß"
    FACE: "😀".."😄" | /\u263a/
    %ignore /\s/
"""

PYTHON = r"""
    start: statement (NEWLINE statement)*
    statement: test ["=" test] | "return" test | "import" dotted ["as" NAME] | "assert" test ["," test]
    dotted: NAME ("." NAME)*
    ?test: either ["if" either "else" test] | "lambda" [NAME ("," NAME)*] ":" test
    ?either: either "or" both | both
    ?both: both "and" negation | negation
    ?negation: "not" negation | comparison
    ?comparison: comparison (COMPARED | "in" | "not" "in" | "is") sum | sum
    ?sum: sum ("+" | "-") term | term
    ?term: term ("*" | "//") factor | factor
    ?factor: "-" factor | power
    ?power: item ["**" factor]
    ?item: item "(" [argument ("," argument)*] ")" | item "[" test [":" test] "]" | item "." NAME | atom
    argument: test | NAME "=" test
    ?atom: NAME | NUMBER | STRING+ | "None" | "(" test ("," test)* ")" | "[" [test ("," test)*] "]"
    COMPARED: "==" | "!=" | "<=" | ">=" | "<" | ">"
    NEWLINE: (/\r?\n[\t ]*/ | COMMENT)+
    COMMENT: /#[^\n]*/
    STRING: /([ubf]?r?|r[ubf])("([^"\\\n]|\\.)*"|'([^'\\\n]|\\.)*')/i
    %import python.NAME
    %import common.NUMBER
    %ignore /[\t \f]+/
"""
"""From the grammar of Python that comes with Lark, for one line at a time."""

RIGHT = r"""
    start: "\"" string | "[" items | digits ";" list
    string: "\"" | /[^"\\]/ string | "\\" escape string
    escape: /["n]/ | "u" hex hex
    hex: /[0-9a-f]/
    items: start "]" | start "," items
    digits: /[0-9]/ | /[0-9]/ digits
    list: odd | statement
    odd: "o" even | "z"
    even: "e" odd | "y"
    statement: branch | "s" | "(" statement ")" "."
    branch: "if" statement | "if" statement "else" statement
"""
"""Rules that recurse to the right: alone, through one another, through rules of one symbol, and with an `else`."""

TEXTS = {
    "arithmetic": (ARITHMETIC, ["1 + 2*(x - 3.5e2)", "f(a, b(), -1) ** 2 / 3", "/* one */ 1", "a*b**c"]),
    "sql": (SQL, [
        "SELECT * FROM t", "select a.b AS c, count(*) from t as u where x >= 1.5 and not y like 'a''b' limit 3;",
        "SELECT a FROM (select b from c) AS d LEFT JOIN e ON d.a = e.a WHERE a IN (1, 2) OR b IS NOT NULL -- end",
        "select x from t where a between 1 and 2 group by a, b having c <> 4 order by a desc, b",
    ]),
    "json": (JSON, ['{"a": [1, -2.5e3, true, null], "b\\\\": {"c": "\\"x"}}', "[ ]", '"\\\\\\""']),
    "robot": (ROBOT, [
        "go north 3 m\nturn left\n", 'repeat 3 { say "hi there"\n go east 1cm }', "going := 5\ngone := 1"
    ]),
    "lexer": (LEXER, ["if a x12", "` b `", "! ! `` <<", "a in b < = c", "017 0", "ß é ẞ"]),
    "unicode": (UNICODE, ["été, ÀÇ …", "Ёж,ß… 😀", "жук… ☺"]),
    "python": (PYTHON, [
        "import a.b as c\nx[1:n] = f(y, z=not 'q' in r'\\w') # end\nreturn x",
        "return lambda a, b: a ** -b // 2 if c is None else [1, (2)]",
    ]),
    "right": (RIGHT, [
        '["a\\"b\\u0f\\n","",123;oeoez]', "7;oeoy", "12;ififselseifs", "1;if(ifselses).elses", '[["x"],["y",["z"]]]',
    ]),
    "context": (CONTEXT, ["aec", "bed", "((aec))", "[x,x,x]", "[]"]),
}  # fmt: skip

ENDINGS = """1 ) ] } " ' ` x e c d q 7 = < n a l r u t s m g o : / . * ! {} */ ,1 +1 :1 :=1 (1) "x" -\n
    ll rue alse rom|t om|t m|t y|1 r|1 s|x in|t |from|t |x |=|1 |by|1 |null |north left |on|1 |and|1 |join|t |as|x |1
    ;z z y ;s s f o 0""".split()
ENDINGS = [" ", "\n", "select 1 from t", *(ending.replace("|", " ").replace("\\n", "\n") for ending in ENDINGS)]
"""Pieces with which the beginnings of texts are ended."""
