"""Python types -> JSON Schema: what Pydantic's validators read out of JSON, and what a type's own code demands.

Knows Pydantic's core schemas. Gives plain JSON Schema, which `structgen.schema` reads as any other.
"""
