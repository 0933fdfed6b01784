"""The grammar of patches that coding agents send with their requests."""

from tests.support.tables import cases

PATCH_GRAMMAR = cases("support/patches", "PATCH_GRAMMAR", globals())
