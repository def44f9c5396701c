"""Routes of the service by role: queries (viewer), commands, tokens (steerer), leases (worker)."""

from assistant.service.routes.commands import command_router as deciding
from assistant.service.routes.leases import lease_router as working
from assistant.service.routes.queries import health_router as health
from assistant.service.routes.queries import query_router as reading
from assistant.service.routes.queries import state_router
from assistant.service.routes.tokens import registration_router as registering
from assistant.service.routes.tokens import token_router as tokens

# The most frequent requests come first.
ROUTERS = (working, health, state_router, reading, deciding, registering, tokens)
