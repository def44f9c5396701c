"""The pages of the app, one module each: ``page`` draws it and returns the user's request.

Sections of a page are in modules that begin with its name. Pages may import `assistant.ui` and the
layers below it.
"""
