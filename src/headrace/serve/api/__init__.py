"""The API of the server: one table of routes, from which the routes, their checks and the OpenAPI document come."""
