"""What is installed into editors: configuration of the server, an agent and skills; needs no package mcp."""
