"""What happened on the way to a text: records of it, and a report of them as a page, as an image, or in a terminal."""
