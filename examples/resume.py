"""A job over 100 documents is killed, and goes on where it was."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep

with TemporaryDirectory() as folder:
    texts, out = Path(folder, "texts.txt"), Path(folder, "people.jsonl")
    prompt = "Extract the person: name, age, city.\nText: {text}\nJSON: "
    job = ["extract", "demo", "-", "--schema", "structgen.demo.tasks:Person", "--prompt", prompt, "--out", str(out)]
    command = [sys.executable, "-m", "structgen", *job, "--batch-size", "1", "--resume"]
    texts.write_text("".join(f"Ada Moreau, {age}, lives in Lyon.\n" for age in range(100)))
    with texts.open() as lines, subprocess.Popen(command, stdin=lines) as running:
        while not out.exists() or out.read_bytes().count(b"\n") < 10:
            sleep(0.05)
        running.kill()
    print("killed before the end:", 10 <= out.read_bytes().count(b"\n") < 100)
    subprocess.run(command, stdin=texts.open(), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(len({line.split('"')[3] for line in out.read_text().splitlines()}), "documents have a result, each once")

# Output:
# killed before the end: True
# 100 documents have a result, each once
