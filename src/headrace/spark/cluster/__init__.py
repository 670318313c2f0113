"""The executors of a cluster: ships the package to them, and checks what an update needs of them."""
