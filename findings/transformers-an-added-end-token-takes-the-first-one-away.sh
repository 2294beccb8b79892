#!/usr/bin/env bash
# To switch on the end token of a tokenizer takes away the token that it puts first.
#
# Expected: `tokenizer.add_eos_token = True` adds the end token behind every text, and what stands before the text stays;
# `add_bos_token` says whether a first token is added.
# Seen (transformers 5.23.0): the tokenizer's file puts <s> before a text, but `add_bos_token` is False for it. With
# `add_eos_token = True` the rule of the file is replaced as a whole: </s> comes behind the text, and <s> is gone.
# Why it matters: embedding models that pool the last token need the end token, and were trained with both.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet transformers==5.23.0 tokenizers==0.23.3
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
from importlib.metadata import version

from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

words = {"<s>": 0, "</s>": 1, "<unk>": 2, "long": 3, "text": 4}
backend = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
backend.pre_tokenizer = pre_tokenizers.Whitespace()
backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
PreTrainedTokenizerFast(tokenizer_object=backend, **special).save_pretrained("tokenizer")
tokenizer = AutoTokenizer.from_pretrained("tokenizer")
before = tokenizer("long text")["input_ids"]
says = tokenizer.add_bos_token
tokenizer.add_eos_token = True
after = tokenizer("long text")["input_ids"]
print("transformers", version("transformers"), before, says, after)
assert (before, says, after) == ([0, 3, 4], False, [3, 4, 1])
PYTHON
