"""Changes of a pipeline as plans: what they do to what is deployed, approved in files, applied under the lease."""

# The modules that other packages may import.
__all__ = ["pipeline_changes", "pipeline_updates", "saved_plans"]
