"""What calls return and streams yield, for annotations."""

from structgen.batch_jobs.job import Extraction
from structgen.calling.conversation import Conversation
from structgen.calling.events import RunAnswer, RunCall, RunEvent, RunRestart, RunResult, RunText, RunThought
from structgen.calling.reply import Reply
from structgen.calling.streaming import CallEvent
from structgen.classifying import Calibration, Classification
from structgen.decoding.choosing.replaying import Replay
from structgen.decoding.confidence import Field
from structgen.decoding.stream import Event
from structgen.evaluating.evaluation import Evaluation
from structgen.explanation import Explanation
from structgen.given_prompts import PlainText
from structgen.porting.portable import Portable
from structgen.tools.api_requests import HttpRequest
from structgen.trace.records import Absence, Cap, Loss

__all__ = [
    "Absence",
    "Calibration",
    "CallEvent",
    "Cap",
    "Classification",
    "Conversation",
    "Evaluation",
    "Event",
    "Explanation",
    "Extraction",
    "Field",
    "HttpRequest",
    "Loss",
    "PlainText",
    "Portable",
    "Replay",
    "Reply",
    "RunAnswer",
    "RunCall",
    "RunEvent",
    "RunRestart",
    "RunResult",
    "RunText",
    "RunThought",
]
