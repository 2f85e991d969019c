"""The site as one file, and back.

manifest     what a backup says of itself: hashes of all that is in it, versions, the state of its tables
files        the attached files, held while they are copied
making       `manage.py backup`: beside running servers
restoring    `manage.py restore`: beside none
place        where a restored database goes, and the old one out of the way

Inside (tar, gzip): the database (`database.sqlite3`, or `database.sql` for PostgreSQL), `attachments/ab/abcd...`, the
secret key if it was asked for, and the manifest as the last one.
"""
