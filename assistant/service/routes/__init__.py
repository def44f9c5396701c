"""HTTP routes by role: queries (viewer), suggestions (suggester), commands, leases (worker)."""

from assistant.service.routes.access import lease_router as working
from assistant.service.routes.access import registration_router as registering
from assistant.service.routes.access import token_router as tokens
from assistant.service.routes.experiments import command_router as deciding
from assistant.service.routes.experiments import health_router as health
from assistant.service.routes.experiments import query_router as reading
from assistant.service.routes.experiments import state_router
from assistant.service.routes.experiments import suggestion_router as suggesting

# The most frequent requests come first.
ROUTERS = (working, health, state_router, reading, suggesting, deciding, registering, tokens)
