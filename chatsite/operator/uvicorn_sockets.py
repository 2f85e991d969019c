"""uvicorn's sockets, bounded as its other connections are."""

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from chatsite.operator.bounded import Bounded


class WebSocket(Bounded, WebSocketsSansIOProtocol):
    pass
