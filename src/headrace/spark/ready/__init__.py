"""What makes a session ready for scripts: names, places, checkpoints and settings as notebooks have them."""
