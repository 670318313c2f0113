"""The plan of an update as data: ``headrace plan`` shows the same steps that ``run`` runs."""
