"""The pages, one module each (``page`` draws it and returns an intent), and their sections.

Sections of a page are in modules that begin with its name. Pages may import `assistant.ui` and the
layers below it.
"""
