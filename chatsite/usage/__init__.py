"""What was used, day by day: runs of the chat and exchanges of the gateway, summed up as they end.

    tally       sums in memory, and what one run or exchange adds to them
    booking     sums onto the rows, whoever else adds to those
    figures     what a page wants to know of a period
    charts      that as pictures: SVG, made here
    admin       the page

The apps that do the work tell it; it knows none of them. No content and no names: a user is a key here.
"""
