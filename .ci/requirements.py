"""Prints what pyproject.toml asks for, a requirement a line: the package's own, and those of the extra `dev` named."""

import re
import sys
from pathlib import Path

import tomllib

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
asked = [each.partition(";")[0] for each in project["optional-dependencies"]["dev"]]
named = [each for each in asked if re.split(r"[^\w-]", each)[0] in sys.argv[1:]]
own = [each for each in project["dependencies"] if not each.startswith("torch")]
print("\n".join(each.replace(" ", "") for each in (*own, *named)))
