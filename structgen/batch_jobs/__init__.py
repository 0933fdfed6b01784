"""Values from many inputs on one machine: what they are read from, a job that can be resumed, its results.

`inputs` reads a folder, a file of rows (`files`), a table (`tables`) or an iterable, as `rows`. `running` runs them in
one batch and gives freed rows to the next inputs, `job` counts their outcomes, `job_files` keeps what a stopped job
continues with, and `report` describes it. The run itself is `decoding`'s.
"""

from structgen.batch_jobs.inputs import read_inputs
from structgen.batch_jobs.job import Extraction, extract_many
from structgen.batch_jobs.job_options import JobOptions
from structgen.batch_jobs.rows import InputRow

__all__ = ["Extraction", "InputRow", "JobOptions", "extract_many", "read_inputs"]
