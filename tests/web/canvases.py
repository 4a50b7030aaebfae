"""Two hundred canvases: as people write them, held-out sentences with words hidden, and what is hard to read."""

import json
from random import Random

from tests.support.paths import FIXTURES, ROOT

SHORT = 64  # characters; of longer canvases a few would take most of the time
WRITTEN = """\
___
___.
___[1]
___[2]
___[4]!
She said ___
___ said no.
NASA launched ___ in ___[1].
THE ___ IS CLOSED UNTIL ___.
"WHERE ARE YOU?" I ___ HIM. "I'M ___."
"___," he said, "is not ___."
“___,” she whispered, “and ___?”
It cost $___, or ___% of £___.
He paid (___[1-2]) and left [___].
I can't ___, you won't ___, and they'd've ___.
Well... ___[2-3] -- or so they said; ___[1]!
e.g. ___, i.e. ___; etc.
Tom's ___'s car
The year ___[1] was cold: 1,234.5 days, ___[2-3] nights.
Call 555-0199 at 10:30 or ___ before ___[1-2].
Visit https://example.org/___?q=1 for ___.
user@___.com wrote ___[2-4] times.
The café in Zürich serves ___ and crème brûlée.
Naïve façades: ___[3].
Москва is ___ of Russia.
東京 is ___[3] of Japan.
Ελλάδα and ___ are ___.
\U0001f600 means ___, \U0001f1e9\U0001f1ea is ___[1-2].
e\u0301 is not é, but ___.
\u200bzero ___ width\u200b
no-break\u00a0space ___ here
tab\there ___ there
two  spaces  ___  around  ___
trailing space ___ \\n
First line ___.
  indented ___ line
line one ___[2-3]\\nline two ___[2]\\n\\nline four ___[1].
ends with a blank ___[3]
___ begins, and ___ ends ___
un___able
___able and ___ful
the anti___ment and the re___
pre___[1]ed words
___[2]___[2]
______ is one blank
They ___[1]___[2-3] home.
___, ___, ___ and ___.
___[1] ___[1] ___[1] ___[1].
A \\___ stays, and ___ goes.
A bracket ___\\[1] after.
A backslash \\\\___ before.
___[2-3] or more, ___[ 3 ] or ___[ 1 - 4 ].
Mr. ___ met Dr. ___[2] at St. ___'s.
<blank> and <pad> are words, ___ is not.
<b>___</b> & <i>___[2]</i>
{"key": "___", "n": ___[1]}
x = ___ + y; // ___
#hashtag ___ @someone ___
The the the ___ the.
very very very very ___
the door, the door, the door, the ___.
I like ___, but I don't like ___; do you like ___?
When ___, the children ___ because ___.
My favourite colour is ___[1] because ___[5-8].
Yesterday ___[6].
Once upon a time, ___[9], and they lived happily ever after.
To be, or not to be: that is ___.
Ask not what your country can do for you — ask ___.
\ufeffbyte order ___
\u0660\u0661\u0662 numbers ___
½ cup of ___, ① ___
\u0085next ___ line\u2028and ___
"""


def _hidden(sentence: str, random: Random) -> str:
    """A sentence with one to three stretches of words hidden, some with a length."""
    words, out, i = sentence.split(), [], 0
    chosen = set(random.sample(range(len(words)), min(len(words), random.randint(1, 3))))
    while i < len(words):
        if i not in chosen:
            out.append(words[i])
            i += 1
            continue
        size = random.randint(1, 4)
        lengths = ("", "", "", f"[{size}]", f"[{size}-{size + 2}]", f"[{size}-{size + 1}]")
        out.append("___" + random.choice(lengths))
        i += size
    text = " ".join(out)
    return text[:1].upper() + text[1:] if random.random() < 0.5 else text


def canvases() -> list[str]:
    people = (ROOT / "results" / "english" / "canvases.jsonl").read_text(encoding="utf-8").splitlines()
    random = Random(0)
    held_out = (FIXTURES / "yelp_test.txt").read_text(encoding="utf-8").splitlines()
    texts = [text for line in people if len(text := json.loads(line)["text"]) <= SHORT]
    texts += [line.replace("\\n", "\n") for line in WRITTEN.strip("\n").split("\n")]
    return texts + [_hidden(sentence, random) for sentence in held_out[: 200 - len(texts)]]
