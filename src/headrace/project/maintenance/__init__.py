"""Maintains the tables and log files of a storage, beside a running update if there is one."""
