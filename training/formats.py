"""Compiles the formats of JSON Schema into the tables that the package ships: `python -m training.formats`."""

from __future__ import annotations

import numpy as np

from structgen.regular.formats import FORMATS, TABLES, compiled


def main() -> None:
    """Write `formats.npz` anew; to be run whenever a grammar in `structgen.regular.formats` changes."""
    arrays = {}
    for name in sorted(FORMATS):
        dfa = compiled(name)
        parts = {"bounds": dfa.bounds, "classes": dfa.classes, "next": dfa.next, "final": dfa.final}
        for part, values in parts.items():
            array = np.asarray(values)
            arrays[f"{name}/{part}"] = array.astype(np.min_scalar_type(array.max(initial=0)))
    np.savez_compressed(TABLES, allow_pickle=False, **arrays)


if __name__ == "__main__":
    main()
