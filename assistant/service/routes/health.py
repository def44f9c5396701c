"""Whether the service lives, and how it does."""

from fastapi import APIRouter, Response

from assistant.service.context import VIEWER, ContextOf
from assistant.service.schemas import HealthOut

router = APIRouter(tags=["operations"])


@router.get("/health")
async def health(context: ContextOf) -> HealthOut:
    """Say that the service answers. The only path that asks for no token."""
    return HealthOut(
        status="draining" if context.drain.has_begun else "ok", version=context.version
    )


@router.get("/metrics", dependencies=[VIEWER], response_class=Response)
def metrics(context: ContextOf) -> Response:
    """Return counters in the text format of Prometheus."""
    return Response(context.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")
