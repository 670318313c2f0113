package io.headrace.storage;

import org.apache.hadoop.fs.LocalFileSystem;

/** Hadoop's local file system, which starts no process to set permissions. */
public class ProcessFreeLocalFileSystem extends LocalFileSystem {
  public ProcessFreeLocalFileSystem() {
    super(new ProcessFreeRawLocalFileSystem());
  }
}
