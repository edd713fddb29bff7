"""Plain torch modules: blocks, CRF, taggers, encoders, and the split into shared and private."""
