"""The routes, by who may use them: read (viewer), decide (steerer), work (worker)."""

from assistant.service.routes.deciding import router as deciding
from assistant.service.routes.health import router as health
from assistant.service.routes.reading import router as reading
from assistant.service.routes.working import router as working

ROUTERS = (working, health, reading, deciding)  # the most frequent requests are found first

__all__ = ["ROUTERS"]
