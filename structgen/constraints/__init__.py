"""What a user wants of a text: a schema, a pattern, one of some texts, a composition, a grammar in Lark's language.

Each constraint is a frozen value that compiles to a `Grammar` for one vocabulary.
"""
