"""The MCP server, with which assistants use a project and the knowledge base, and what is installed into editors."""
