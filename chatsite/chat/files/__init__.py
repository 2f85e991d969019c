"""Files that people attach.

uploads      on their way in: taken whole or not at all         upload_doors  over HTTP
types        what a file is, by its content
attachments  their rows             disk        their bytes     references    what a message holds of them
attaching    what a model gets of them                          downloads     what a browser does
removing     those that nobody holds any more
"""
