"""Arguments that a format writes key by key, `<param name="city">Paris</param>`: their mask and their reader.

`plans` makes parts of a composition from the schemas of arguments, `value_plans` from values that are not JSON, for
which `nested` is the syntax of arrays and objects. `reader` turns the text of arguments into JSON. `styles` is the
table of those of structural tags.
"""
