"""The session of scripts and notebooks: table names, paths, checkpoints and settings as notebooks have them."""
