"""The composition root: a folder with settings and files becomes something that can be validated, planned and run."""
