"""The routes, by who may use them: read (viewer), decide and let others in (steerer), work."""

from assistant.service.routes.deciding import router as deciding
from assistant.service.routes.health import router as health
from assistant.service.routes.reading import router as reading
from assistant.service.routes.reading import state
from assistant.service.routes.registering import router as registering
from assistant.service.routes.tokens import router as tokens
from assistant.service.routes.working import router as working

# The most frequent requests are found first.
ROUTERS = (working, health, state, reading, deciding, registering, tokens)

__all__ = ["ROUTERS"]
