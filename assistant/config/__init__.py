"""Configuration: the models of a sweep file, its reader and writer, and the snapshot of a sweep.

Imports the core, the applications, the executors, hooks and `assistant.session`.
"""
