"""Documents with character offsets, words and sentences, tag schemes, tag sets, and their alignment."""
