import langextract as lx
from langextract.core import tokenizer

import structgen.integrations.langextract  # not needed where structgen is installed: an entry point

# %% README.md: characters and emotions with attributes
examples = [
    lx.data.ExampleData(
        text="ROMEO. But soft! Juliet is the sun.",
        extractions=[
            lx.data.Extraction("character", "ROMEO", attributes={"emotional_state": "wonder"}),
            lx.data.Extraction("emotion", "But soft!", attributes={"feeling": "gentle awe"}),
        ],
    )
]
answer = lx.extract(
    text_or_documents="Lady Juliet gazed longingly at the stars",
    prompt_description="Extract characters and emotions in order of appearance.",
    examples=examples,
    # was: model_id="gemini-3.5-flash",
    model_id="structgen:demo",
).extractions

# %% docs/examples/medication_examples.md: a medication
examples = [
    lx.data.ExampleData(
        text="Patient was given 250 mg IV Cefazolin TID for one week.",
        extractions=[lx.data.Extraction("dosage", "250 mg"), lx.data.Extraction("medication", "Cefazolin")],
    )
]
answer = lx.extract(
    text_or_documents="Patient took 400 mg PO Ibuprofen q4h for two days.",
    prompt_description="Extract dosage and medication.",
    examples=examples,
    # was: model_id="gemini-2.5-pro",
    model_id="structgen:demo",
).extractions

# %% docs/examples/output_schema.md: a schema of one's own
examples = [
    lx.data.ExampleData(
        text="Patient has asthma. Patient denies fever.",
        extractions=[
            lx.data.Extraction("condition", "asthma", attributes={"status": "present"}),
            lx.data.Extraction("condition", "fever", attributes={"status": "absent"}),
        ],
    )
]
status = {"status": {"type": "string", "enum": ["present", "absent"]}}
answer = lx.extract(
    text_or_documents="Patient has hypertension. Patient denies diabetes.",
    prompt_description="Extract conditions and their status.",
    examples=examples,
    output_schema=lx.schema.extractions_schema(lx.schema.extraction_item_schema("condition", attributes=status)),
    # was: model_id="gemini-3.5-flash",
    model_id="structgen:demo",
).extractions
assert {each.attributes["status"] for each in answer} <= {"present", "absent"}

# %% docs/examples/japanese_extraction.md: Japanese
examples = [
    lx.data.ExampleData(
        text="大阪の山田さんはソニーに入社しました。",
        extractions=[lx.data.Extraction("Location", "大阪"), lx.data.Extraction("Person", "山田")],
    )
]
answer = lx.extract(
    text_or_documents="東京出身の田中さんはGoogleで働いています。",
    prompt_description="Extract named entities: Person, Location.",
    examples=examples,
    tokenizer=tokenizer.UnicodeTokenizer(),
    # was: model_id="gemini-3.5-flash",
    model_id="structgen:demo",
).extractions

# %% README.md: several passes over parts of a text
examples = [lx.data.ExampleData(text="ROMEO. But soft!", extractions=[lx.data.Extraction("character", "ROMEO")])]
answer = lx.extract(
    text_or_documents="JULIET. O Romeo, Romeo! " * 4,
    prompt_description="Extract characters.",
    examples=examples,
    extraction_passes=2,
    max_workers=4,
    max_char_buffer=50,
    # was: model_id="gemini-3.5-flash",
    model_id="structgen:demo",
).extractions
