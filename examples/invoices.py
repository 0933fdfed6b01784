"""Invoices from a folder become a table."""

from pathlib import Path
from tempfile import TemporaryDirectory

import structgen as sg
from structgen.demo.tasks import TASKS, Invoice  # number, vendor, total, currency, due, paid

LETTERS = {
    "1.txt": "Invoice A-1042 from Nordlicht GmbH: total 312.50 EUR, due 2024-05-01, not yet paid.",
    "2.txt": "Invoice INV-4417 from Harbour Tools: total 89.90 GBP, due 2024-06-15, already paid.",
}
model = sg.load("demo")
with TemporaryDirectory() as folder:
    for name, text in LETTERS.items():
        Path(folder, name).write_text(text)
    table = Path(folder, "invoices.csv")
    sg.extract_many(model, folder, Invoice, prompt=TASKS["invoice"].prompt("{text}"), out=table)
    print(table.read_text().strip())

# Output:
# id,number,vendor,total,currency,due,paid,finish
# 1.txt,A-1042,Nordlicht GmbH,312.5,EUR,2024-05-01,false,complete
# 2.txt,INV-4417,Harbour Tools,89.9,GBP,2024-06-15,true,complete
