"""Turn a folder of documents into one JSON Lines file. Failures are set aside, and a second run resumes."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import structgen as sg
from structgen.demo.tasks import Person  # name: str, age: int, city: str

PROMPT = "Extract the person: name, age, city.\nText: {text}\nJSON: "
LETTERS = {
    "ada.txt": "Ada Moreau, 36, lives in Lyon.",
    "tom.txt": "Tom Berg is 51 years old and lives in Oslo.",
    "log.txt": "x" * 9000,  # longer than the model can read
}

model = sg.load("demo")
with TemporaryDirectory() as folder:
    letters, out = Path(folder, "letters"), Path(folder, "people.jsonl")
    letters.mkdir()
    for name, text in LETTERS.items():
        (letters / name).write_text(text)

    job = sg.extract_many(model, letters, Person, prompt=PROMPT, out=out)
    print(job.done, "done,", job.failed, "failed")
    print(*sorted(out.read_text().splitlines()), sep="\n")
    for line in Path(f"{out}.errors.jsonl").read_text().splitlines():
        failure = json.loads(line)
        print(failure["id"], failure["error"]["type"])

    (letters / "log.txt").write_text("Nadia Petrova, 28, lives in Rome.")
    job = sg.extract_many(model, letters, Person, prompt=PROMPT, out=out, resume=True)
    print(job.done, "done,", job.skipped, "from before")

# Output:
# 2 done, 1 failed
# {"id": "ada.txt", "value": {"name": "Ada Moreau", "age": 36, "city": "Lyon"}, "finish": "complete"}
# {"id": "tom.txt", "value": {"name": "Tom Berg", "age": 51, "city": "Oslo"}, "finish": "complete"}
# log.txt PromptTooLong
# 1 done, 2 from before
