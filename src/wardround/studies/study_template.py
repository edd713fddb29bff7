"""The study file that `wardround study new` writes: it runs as it is, and every line says what it is for."""

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
shared = ["words", "characters", "word_cnn"]   # the layers trained together; the rest never leaves its site
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
batch_size = 64                   # of fedner: summed over all sites; of the others: of each
learning_rate = 0.003
clip = 5.0                        # largest norm of a gradient

[privacy]
mechanism = "sealed+masked"       # nobody reads an update; or sealed, masked, or plain: the coordinator sees each
minimum_sites = 3                 # fewer answers than this stop the study
smallest_batch = 0                # sentences that an update is made of at least; 0 is 16, or all that a site has
packing = "standard"              # 22 bits a number; compact: 15, and two thirds of the bytes
error_feedback = false            # whether what rounding takes from an update goes into the site's next
largest_share = 0.5               # of one site in a mean of three or more, whatever size it says it has

[evaluation]
every = 20                        # rounds between two scorings of the development notes
patience = 0                      # scorings without a better mean before it ends early; 0 is never

[federation]
deadline = 600.0                  # seconds a hospital has for an answer
wait = 3600.0                     # seconds to wait for enough hospitals
checkpoint_every = 50             # rounds, on one machine; among hospitals every round is kept

# A section a site. On one machine it says where the notes are:
#
#   [sites.harbour]
#   data = "data/harbour"         # holds train, dev and test; begins where this file lies
#   format = "brat"
#   types = ["Drug", "ADE"]
#   scheme = "BIOES"
#
# Among hospitals it says only what each annotates; where its notes are, a hospital tells nobody.

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
