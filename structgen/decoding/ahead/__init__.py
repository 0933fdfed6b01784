"""What need not be asked of the model: forced text, text that stands elsewhere already."""
