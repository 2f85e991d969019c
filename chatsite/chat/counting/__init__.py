"""What runs came to.

watched    as they end, for this process's counters
booking    into the figures of their day, once         figures   into the columns that the admin sorts by
spending   tokens and money, for who spent them
"""
