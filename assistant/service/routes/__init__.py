"""The routes, by who may use them: read (viewer), decide and register (steerer), work (worker)."""

from assistant.service.routes.deciding import router as deciding
from assistant.service.routes.health import router as health
from assistant.service.routes.reading import router as reading
from assistant.service.routes.registering import router as registering
from assistant.service.routes.working import router as working

# The most frequent requests are found first.
ROUTERS = (working, health, reading, deciding, registering)

__all__ = ["ROUTERS"]
