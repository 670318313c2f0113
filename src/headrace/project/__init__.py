"""The composition root: turns a folder with settings and files into a project to validate, plan and run."""
