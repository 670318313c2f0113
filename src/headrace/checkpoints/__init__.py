"""What is deployed, read without a JVM: flow records beside the checkpoints, offsets, Delta logs."""
