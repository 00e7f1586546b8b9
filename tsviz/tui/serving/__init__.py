"""The debugger in a browser on loopback: the only room that imports textual-serve and aiohttp."""
