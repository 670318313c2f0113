"""The files of a project, as text: settings, code, sample data, tests and pages."""
