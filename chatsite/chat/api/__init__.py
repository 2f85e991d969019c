"""`/api/chat`, for programs.

answering   POST: a run that is begun, joined or taken up again; whatever was asked, in one `answer`
read        GET: a page restores itself, or joins a run that is under way
resume      what of a posted body takes a waiting run up again
stream      a run's events, and what a client's leaving means
doors       the two ways in: before Django with a key, behind it with a cookie
exchange    what goes in and out, whichever it was
"""
