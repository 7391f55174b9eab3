"""Pure numerics: which state is a channel? Torch in, records out; knows no files and no engines."""
