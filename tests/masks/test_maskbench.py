"""Documents of real schemas through the matcher: none that is invalid is taken, and none that is valid refused."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from time import thread_time
from typing import Any

import pytest

from structgen.constraints.basic import JsonSchema
from structgen.errors import LimitExceeded, SchemaError
from tests.support.matching import byte_vocabulary, plain_verdict

REFUSED_SHARE = 0.005
"""Of all schemas; on the dev split it is one, which is malformed."""
SECONDS = 5.0
"""Thread CPU time for one schema and its documents, in either order."""


def rows(data_folder: Path, stride: int) -> Iterator[dict[str, Any]]:
    """Every `stride`-th schema of the dev split."""
    with lzma.open(data_folder / "maskbench-dev.jsonl.xz", "rt") as lines:
        for line in islice(lines, 0, None, stride):
            yield json.loads(line)


def judge(row: dict[str, Any]) -> tuple[list[str], list[str]] | None:
    """The invalid documents that were taken, and the valid ones refused in any order; None where refused whole."""
    verdicts = {}
    try:
        for order in ("schema", "any"):
            verdicts[order] = JsonSchema(row["schema"], order=order).compile(byte_vocabulary())
        after_the_fact = JsonSchema(row["schema"]).judge()
        taken, refused = [], []
        for case in row["tests"]:
            text = json.dumps(case["data"], ensure_ascii=False).encode()
            in_schema, in_any = (plain_verdict(verdicts[order], text) for order in ("schema", "any"))
            if not case["valid"] and (in_schema or in_any):
                taken.append(f"{row['id']}: {case['description']}")
            fault = after_the_fact.fault(case["data"])
            assert (fault is None) == in_any, f"{row['id']}: {case['description']}: {fault}"
            if case["valid"] and not in_any:
                refused.append(f"{row['id']}: {case['description']}")
            assert in_any or not in_schema, f"{row['id']}: a text of the schema's order is a text of any order"
    except (SchemaError, LimitExceeded):
        return None
    return taken, refused


def check(data_folder: Path, stride: int) -> None:
    """No invalid document is taken; a valid one is refused only for its key order; and no schema takes long."""
    judged, slow = [], {}
    for row in rows(data_folder, stride):
        began = thread_time()
        judged.append(judge(row))
        if (spent := thread_time() - began) > SECONDS:
            slow[row["id"]] = spent
    known = [found for found in judged if found is not None]
    taken = [case for found in known for case in found[0]]
    refused = [case for found in known for case in found[1]]
    print(f"{len(known)} of {len(judged)} schemas compile")
    assert not taken, taken
    assert not refused, refused
    assert len(judged) - len(known) <= REFUSED_SHARE * len(judged)
    assert not slow, slow


def test_a_sample_of_the_dev_split_is_judged_rightly(data_folder: Path) -> None:
    """Every 25th schema."""
    check(data_folder, 25)


@pytest.mark.slow
def test_the_dev_split_is_judged_rightly(data_folder: Path) -> None:
    """All of it."""
    check(data_folder, 1)
