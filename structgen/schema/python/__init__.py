"""Python types -> JSON Schema: what Pydantic's validators accept in JSON, and what a type's own validators demand.

It reads Pydantic's core schemas. The result is plain JSON Schema.
"""
