"""What becomes of what is kept: the chat's side of `chatsite.care`. Nobody waits for it, and it can stop anywhere.

upkeep      logs of ended runs, what was thrown away, files without a holder
retention   how long threads are kept
personal    what the chat has of a person, to be exported and erased
"""
