"""The study file that `wardround study new` writes: it runs unchanged, and comments explain its settings."""

__all__ = ["TEMPLATE"]

TEMPLATE = """# A study: one training among hospitals. `wardround study show` prints it with every default.

[study]
name = "adverse-effects"
seed = 7                          # same study, same seed, same machine: same result
description = "Drugs and what they did, at four hospitals that annotate different things."

[task]
kind = "ner"                      # named entities

[model]
preset = "fedner"                 # `wardround model presets` lists the networks
# encoder = "minilm"              # in place of a preset: a Hugging Face id, a folder, or minilm
# vectors = "glove.npz"           # pretrained word vectors for a preset
shared = ["characters", "word_cnn"]   # the layers trained together; the rest never leaves its site
# "words" is not among them: the rows of a table of words that change in an update name the words of the notes.
# `wardround audit leakage study.toml` measures what updates of this study reveal.
word_buckets = 8192               # any further line is an option of the network
word_dimension = 50
word_cnn = 100
lstm = 100
input_dropout = 0.5
dropout = 0.5

[algorithm]
name = "fedner"                   # `wardround study algorithms` lists them
rounds = 200
participation = 1.0               # the fraction of sites asked in each round

[training]
batch_size = 64                   # sentences behind one optimizer step; under fedner divided among the sites
learning_rate = 0.003
clip = 5.0                        # maximum norm of a gradient

[privacy]
mechanism = "sealed+masked"       # no party reads an update; or sealed, masked, or plain: the coordinator sees each
minimum_sites = 3                 # fewer answers than this stop the study
smallest_batch = 0                # minimum number of sentences per update; 0 means 16, or all that a site has
packing = "standard"              # 22 bits per number; compact: 15 bits, and two thirds of the bytes
error_feedback = false            # whether the rounding error of an update is added to the site's next one
largest_share = 0.5               # of one site in a mean of three or more, whatever its size

[evaluation]
every = 20                        # rounds between two scorings of the development notes
patience = 0                      # scorings without a better mean before the study ends early; 0 means never

[federation]
deadline = 600.0                  # seconds a hospital has for an answer
wait = 3600.0                     # seconds to wait for enough hospitals
checkpoint_every = 50             # rounds, on one machine; among hospitals every round is saved

# One section per site. On one machine it says where the notes are:
#
#   [sites.harbour]
#   data = "data/harbour"         # contains train, dev and test; relative to the folder of this file
#   format = "brat"
#   types = ["Drug", "ADE"]
#   scheme = "BIOES"
#
# Among hospitals it says only what each annotates; the location of the notes stays at the hospital.

[sites.harbour]
built_in = "harbour"              # a synthetic hospital, in place of data and format
types = ["Drug", "Disease", "Dosage"]

[sites.hillside]
built_in = "hillside"
types = ["Drug", "ADE", "Finding"]
scheme = "BIOES"

[sites.riverside]
built_in = "riverside"
types = ["Drug", "ADE", "Symptom"]

[sites.lakeside]
built_in = "lakeside"
types = ["Disease", "Symptom", "Finding", "Dosage"]
"""
