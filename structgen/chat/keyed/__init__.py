"""Arguments that a format writes key by key, `<param name="city">Paris</param>`: their mask and their reader.

`plans` makes both from the schemas of arguments. `strings` are values without quotes, or in quotes of Python;
`nested_plans` are arrays and objects, whose syntax is in `nested`.
"""
