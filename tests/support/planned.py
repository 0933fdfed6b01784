"""A plan of parts as a constraint of its own."""

from __future__ import annotations

from dataclasses import dataclass

from structgen.constraints.compositions import Composition
from structgen.parts.parts import Plan


@dataclass(frozen=True, eq=False)
class Planned(Composition):
    """The composition that has this plan."""

    parts: Plan

    def plan(self) -> Plan:
        return self.parts
