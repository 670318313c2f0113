"""What an update would do and why, as data: the same steps are shown by ``headrace plan`` and run by ``run``."""
