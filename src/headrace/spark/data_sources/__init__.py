"""Python data sources that Spark's workers load; few imports, because each query loads them."""
