"""The page's doors: each reads a form or link into a command, hands it on, and answers in HTML.

threads      a thread: show, send, stop, retry, answer          steering     its branches
choosing     how it answers, presets                            organizing   threads as a whole
attachments  its files                                          installing   the page as an app

door         what they share: who may come in, how a command is answered, how what goes wrong is said
forms        what forms and links say, as commands
page         the chat page itself        reading      how much of a thread it shows
"""
