"""Endpoints and models that administrators add, beside those of the environment. The chat and the gateway read them.

    models      the rows: Endpoint (address, key), Model (price, context, abilities), Route (which endpoint serves it)
    entries     those rows as values, kept for a few seconds in each process; prices and facts of both origins
    sealing     keys are encrypted where they are kept
    admin       where they are made, and tried

It knows neither the chat nor the gateway. Which groups may use a model is `chatsite.policies`'.
"""
