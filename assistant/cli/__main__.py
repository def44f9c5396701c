"""Entry point ``python -m assistant.cli``, the same as ``copperline``."""

from assistant.cli.main import main

main()
