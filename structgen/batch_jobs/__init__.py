"""Values from many documents on one machine: inputs, a job that can be resumed, its results."""

from structgen.batch_jobs.inputs import InputRow, read_inputs
from structgen.batch_jobs.job import Extraction, extract_many

__all__ = ["Extraction", "InputRow", "extract_many", "read_inputs"]
