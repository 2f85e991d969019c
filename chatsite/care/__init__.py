"""What happens to people's data: how long it stays, who keeps it from going, and how all of it goes or comes out.

models      holds, and erasures with their proof
holds       nobody erases what is held
walking     rules of retention look at one person after another, a little at a time
lines       where people's data is: each app says a line for each of its tables
erasing     a person, with all lines; can be stopped anywhere and goes on
exporting   everything of a person as one file

It knows none of the apps: each tells its lines when it is ready (`lines.register`).
"""
