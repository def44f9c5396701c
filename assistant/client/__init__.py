"""Client of a service: the calls of a `Session` over HTTP, and the worker that executes runs."""
