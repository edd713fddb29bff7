"""Text with character offsets: documents, words, sentences, tags, and how they line up."""
