"""Python data sources that Spark's workers load; few imports, because each query loads them."""

# The modules that other packages may import.
__all__ = ["cloud_files", "python_sources"]
