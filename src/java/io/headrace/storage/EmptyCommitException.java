package io.headrace.storage;

/** A commit of Delta's log has 0 bytes, so that what it wrote is unknown. */
public class EmptyCommitException extends IllegalStateException {
  private static final long serialVersionUID = 1L;

  EmptyCommitException(String file) {
    super(
        "the Delta commit \""
            + file
            + "\" has 0 bytes, so that what it wrote is unknown. Restore the file from a copy; if there is none and no"
            + " later commit, delete it and the .crc file of the same version.");
  }
}
