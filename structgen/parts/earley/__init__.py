"""Grammars: a lexer over characters, and sets of Earley items that move once a lexeme.

`symbols` gives numbers to what a plan is made of, `items` are the parser's states, `lexer` finds where lexemes end, and
`part` writes both into the tables of an automaton.
"""
