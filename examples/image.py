"""A picture becomes an object: an OCR model of 15 MB reads it, and the language model writes the object.

pip install rapidocr-onnxruntime==1.4.4
"""

# Needs: rapidocr_onnxruntime
import numpy
from PIL import Image, ImageDraw, ImageFont
from rapidocr_onnxruntime import RapidOCR

import structgen as sg
from structgen.demo.tasks import TASKS, Person  # name: str, age: int, city: str

picture = Image.new("RGB", (700, 100), "white")  # yours comes from a file: Image.open("card.png")
font = ImageFont.load_default(size=28)
ImageDraw.Draw(picture).text((20, 20), "Ada Moreau, 36, lives in Lyon.", "black", font)

lines, _ = RapidOCR()(numpy.asarray(picture))
text = "\n".join(line for _, line, _ in lines)
print(sg.generate(sg.load("demo"), TASKS["person"].prompt(text), Person))

# Output:
# name='Ada Moreau' age=36 city='Lyon'
