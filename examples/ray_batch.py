"""A batch job on Ray Data actors: each loads the model once. For many machines call `ray.init` first."""

# Needs: ray
from pathlib import Path
from tempfile import TemporaryDirectory

import structgen as sg
from structgen.demo.tasks import Person  # name: str, age: int, city: str
from structgen.integrations.ray import extract_on_ray

PROMPT = "Extract the person: name, age, city.\nText: {text}\nJSON: "
LETTERS = ["Ada Moreau, 36, lives in Lyon.", "Tom Berg is 51 years old and lives in Oslo."]


def load_model() -> sg.Model:
    """Each actor calls this once: here for the demo model, otherwise with `sg.load("a folder or Hugging Face id")`."""
    return sg.load("demo")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        out = Path(folder, "people.jsonl")
        job = extract_on_ray(load_model, LETTERS, Person, prompt=PROMPT, out=out, actors=1)
        print(job.done, "done,", job.failed, "failed")
        print(*sorted(out.read_text().splitlines()), sep="\n")

# Output:
# 2 done, 0 failed
# {"id": "1", "value": {"name": "Ada Moreau", "age": 36, "city": "Lyon"}, "finish": "complete"}
# {"id": "2", "value": {"name": "Tom Berg", "age": 51, "city": "Oslo"}, "finish": "complete"}
