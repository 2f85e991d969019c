"""A thread as a file, and back.

moving     a thread -> its file -> a thread
shape      what may stand in the file       facts   what of it is read by name later
attached   the attached files in it
packed     several threads as an archive
markdown   the branch that is shown, for people
"""
