"""The private servers by name: `with postgres_server() as server: server.new_database()`."""

from .mariadb import MariaServer as MariaServer
from .postgres import PostgresServer as PostgresServer
from .redis import RedisServer as RedisServer
from .server import Server as Server
from .server import ServerMissing as ServerMissing


def postgres_server() -> PostgresServer:
    """A PostgreSQL that starts when entered and is removed with its data when left."""
    return PostgresServer()


def mariadb_server() -> MariaServer:
    """A MariaDB that starts when entered and is removed with its data when left."""
    return MariaServer()


def redis_server() -> RedisServer:
    """A Redis that starts when entered and is removed when left."""
    return RedisServer()
