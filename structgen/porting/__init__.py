"""JSON Schemas as providers' structured output takes them: `portable` makes one.

`providers` is the table of what each takes. `porter` ports the schemas of one value together, by references and unions;
`plain` ports what is neither; `parts` has what such schemas say together, and `losses` what is lost.
"""

from structgen.porting.portable import Portable, portable
from structgen.porting.providers import PROVIDERS

__all__ = ["PROVIDERS", "Portable", "portable"]
