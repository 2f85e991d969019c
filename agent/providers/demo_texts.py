"""What the demo model says."""

from __future__ import annotations

WHO = """\
I am the built-in demo model. I play rules and am no language model, so I cannot answer questions of your \
own; set up a provider for that. What I can show you, when you write one of these:"""

EXAMPLE_DATA = "_(These are fixed example data of the built-in tools, no real forecast.)_"

NO_WEATHER_TOOL = """\
I have no weather tool here: this chat does not offer me `get_weather`. As the demo model I play rules, \
so without the tool there is nothing true I could say about the weather. Write **help** for what else I \
can show."""

NO_CALLS_LEFT = "I may make no tool calls now and have seen no results, so there is nothing I could report."

BEFORE_EMAIL = "I have written an email. It goes nowhere before you approve it:"

EMAIL_SUBJECT = "Hello from Threadloom"

EMAIL_BODY = """\
Hello,

this is the demo model of Threadloom. I play rules, and one of them says to write to you.

Kind regards"""

EMAIL_SENT = """\
The tool says that the email to **{to}** with the subject “{subject}” is sent.{changed}

_(It is an example tool: nothing has left this server.)_"""

EMAIL_CHANGED = " I read what you made of it: those were the arguments the tool was given."

EMAIL_REFUSED = {
    "denied": "The email was not sent. The server told me: “{said}”",
    "cancelled": "The email was not sent: the question was cancelled before anybody approved it.",
}

EMAIL_FAILED = "The email was not sent, because the tool failed: “{said}”"

NO_EMAIL_TOOL = """\
I have no tool for email here: this chat does not offer me `send_email`. As the demo model I play rules, so \
without the tool nothing was written and nothing was sent. Write **help** for what else I can show."""

BEFORE_UNKNOWN_TOOL = "I shall ask the crystal ball."

AFTER_UNKNOWN_TOOL = """\
There is no crystal ball here. The server told me: “{said}” A model that asks for a tool it does not have \
gets that as the result of its call, and can go on like this."""

CORRECTION = "My call was refused, and the server told me why. Once more, with the right argument:"

LOOP_STOPPED = """\
I would have gone on for ever, but a limit of the server stopped me after {turns} turns. The tool calls \
above were all run; this last turn was made without tools, so that you get words instead of silence."""

BEFORE_CUT_CALL = "I shall look that up, but my output limit is close:"

AFTER_CUT_CALL = """\
The call above was cut off by the output limit, so its arguments cannot be trusted. The server did not \
run it, and told me so in its result."""

THOUGHTS = """\
The person wants to see me think. I am a set of rules, so these are not real thoughts: they were written \
beforehand, and they stream in the way that a reasoning model's do.

First I look whether the question names a city. It does not. Then I look at my rules in order, and the \
first one whose word is in the question wins. That is this one.

So the answer is short."""

THOUGHT_OUT = "I have thought about it. Models that reason show their thoughts above the answer, folded away."

BEFORE_SKY = "I look at the sky, hour by hour. The card says how far that is."
AFTER_SKY = "I have looked: it is cloudy, then clear. The progress is gone, as it is no part of the result."

NO_SUCH_TOOL = "I have no tool `{name}` here, so I cannot show that."

TASK = "What should I wear in Oslo today?"
BEFORE_COLLEAGUE = "I ask a colleague: an agent with tools of its own. What it does stands in the card."
AFTER_COLLEAGUE = "My colleague says:\n\n> {said}"

CUT = """\
This answer is about to be cut off by the output limit, as happens to a model that was allowed too few \
tokens. The page says so below, and the transcript keeps the finish reason `length`. The last sentence \
stops in the mid"""

FILTERED = "This answer began well, and then a content filter of the provider"

BROKEN = """\
This answer will not reach its end. The connection to the model is lost in mid sentence, the part that \
came stays where it is, and you are offered to try again, because the"""

ERROR = "The demo model was asked for an error, and this is it: nothing was said, and you can try again."

SLOW = """\
This answer takes about half a minute, so that you have time to try things while it streams.

Press **Stop**, and it ends at once: what has come so far stays, the message is marked as stopped, and \
the next question can follow. Reload the page, and it goes on where it is, because the run belongs to the \
thread and not to your browser. Open the same thread in a second tab, and both show the same text at the \
same time. Close the lid of your laptop and open it again: nothing is missing.

While you wait, here is how one message travels. The browser posts it. The server keeps it in a row of \
its own, starts a run for the thread, and returns at once. The run asks the model, in this case me, for a \
turn. Each piece of text that I say becomes an event with a number. The events are kept in small batches \
and told to whoever follows the thread. A reader holds a cursor, which is the number of the last event it \
has seen; if it was away, it asks for everything behind that number and catches up.

When the turn ends with tool calls, the server runs the tools, side by side, and gives me the results in \
the order of the calls. Then it asks me for the next turn, and so on, until I have said all I want to say \
or a limit that you set is reached. Whatever happens, every call gets exactly one result and every run \
exactly one end.

If the server dies in the middle, another one finds the run without a heartbeat, closes what was open and \
takes it up again. Nothing that has a side effect is done twice.

Are you still here? Then you did not press Stop. The text is nearly over now. A few more words, slowly, \
one after the other, and that was all of it. Thank you for your patience."""

MARKDOWN = """\
# A tour of markdown

This is the demo model's long answer. It was written beforehand and is here to show **bold**, _italic_, \
~~struck~~ and `inline code`, and a [link to the CommonMark specification](https://spec.commonmark.org/) \
that opens in a new tab.

## A table

| Tool | Argument | Gives | Runs |
|---|---|---|---:|
| `get_weather` | `city` | temperature and conditions | 12 |
| `get_clothing_advice` | `temperature`, `conditions` | a recommendation | 11 |
| `read_crystal_ball` | `question` | nothing, it does not exist | 0 |

## A task list

- [x] Ask the model
- [x] Run the tools it asked for
- [ ] Answer, or ask again

## Code

The loop, as short as it gets in Python:

```python
async def run(model, tools, transcript):
    while True:
        turn = await model.answer(transcript)
        transcript.append(turn)
        if turn.finish_reason != "tool_calls":
            return transcript
        for call in turn.calls:
            transcript.append(await tools[call.name](**call.arguments))
```

And a reader of its events in JavaScript:

```js
const source = new EventSource(`/threads/${threadId}/events?after=${cursor}`);
source.addEventListener("message", (event) => {
  const { type, delta } = JSON.parse(event.data);
  if (type === "TEXT_MESSAGE_CONTENT") document.title += delta.length; // <b>not bold</b>
});
```

## A quotation

> A run belongs to its thread, never to a socket.
>
> > Whoever closes the laptop finds the answer when it opens again.

## Lists in lists

1. A turn is one call of the model.
   - It may think first.
   - It may say something.
     - It may also ask for tools:
       1. one,
       2. or several at once.
2. A run is one or more turns.
3. A thread is its runs, one after the other.

## Something like mathematics

With $n$ turns of $t_i$ tokens each, the model reads about $\\sum_{i=1}^{n} t_i \\cdot (n - i)$ tokens \
again, which grows as $O(n^2)$. As a block:

$$
\\frac{a}{b} + \\sqrt{x^2 + y^2} \\le \\lVert v \\rVert
$$

---

That is all. Special characters stay what they are: < > & " ' © 你好 🌍."""


def _chapter(number: int) -> str:
    return f"""\
## Chapter {number}

This is chapter {number} of {CHAPTERS} of an answer that is long on purpose. It was written by a program, \
so do not look for a story in it. A page that shows it should stay quick to scroll and to type in, \
however many words have come before, and a reader who scrolled up should stay where they are.

- In chapter {number} the first point is that a settled paragraph is never drawn again.
- The second point is that only the open tail of the text changes, a few times a second.
- The third point is that `chapter_{number}` has an identity of its own, so that nothing comes twice."""


CHAPTERS = 35

VERY_LONG = "\n\n".join(
    ["# A very long answer", *(_chapter(number) for number in range(1, CHAPTERS + 1)), "The end."]
)
