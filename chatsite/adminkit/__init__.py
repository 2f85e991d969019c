"""What all admin pages of this project have in common, whichever app they belong to.

base        lists and detail pages that show rows and change none
filters     the sidebar, by questions that an index answers
races       two forms at once, for what there may be only once
"""
