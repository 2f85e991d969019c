"""A thread as HTML.

fragments    what the views call: it, whole or as what changed        swaps    the elements in which it comes
transcript   its runs and messages        window   how many of them a page shows
context      what a message's look depends on besides itself
cards, ends  tool calls; how a run ended  links    what runs hold of each other's calls
within       what goes on inside a call   told     why a run failed        words   the tables of plain words
steering     what a person can do with a message                           picker  the models there are
asking       a question to a person       fields   its arguments as a form: one_field, field_schemas

growing      a text that streams in       blocks   its settled blocks and open tail
markdown     markdown to clean HTML: parsing, footnotes, mathematics, code (its colours: code_css), cleaning last
escaping     text as HTML text
"""
