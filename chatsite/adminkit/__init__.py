"""What all admin pages of this project have in common, whichever app they belong to.

base        lists and detail pages that show rows and change none
pages       one page where a list would be, for what has no table
filters     the sidebar, by questions that an index answers
reading     who reads what others said, why, and that it is on record
masking     text without secrets
sheets      a list as CSV
races       two forms at once, for what there may be only once
"""
