"""Arguments that a format writes key by key, `<param name="city">Paris</param>`: their mask and their reader.

`plans` makes parts of a composition from an argument's schema, `reader` turns such text into JSON; `nested` and
`nested_plans` are the same of arrays and objects in a syntax other than JSON, `raw_strings` of strings without quotes.
"""
