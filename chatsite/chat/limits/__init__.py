"""What somebody may use, and how far a run may go.

allowance   models and tools, by policy and key        policy    what is said to a tool call before anybody is asked
budgets     turns, tokens and money of a run           metering  the limits of people, groups and keys, held in it
"""
