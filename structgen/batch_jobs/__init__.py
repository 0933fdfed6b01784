"""Values from many documents on one machine: inputs, a job that can be resumed, its results.

`inputs` reads a folder, a file of rows or an iterable. `job` runs the rows in one batch, gives freed rows to the next
inputs, and keeps the files by which a stopped job goes on. The run itself is `decoding`'s.
"""

from structgen.batch_jobs.inputs import InputRow, read_inputs
from structgen.batch_jobs.job import Extraction, extract_many

__all__ = ["Extraction", "InputRow", "extract_many", "read_inputs"]
