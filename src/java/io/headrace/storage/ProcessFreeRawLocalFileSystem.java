package io.headrace.storage;

import java.io.IOException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Sets permissions with a system call. Hadoop does so only where its native library is installed, and runs {@code chmod}
 * elsewhere: once for each file and folder that it makes with permissions.
 */
class ProcessFreeRawLocalFileSystem extends RawLocalFileSystem {
  @Override
  public void setPermission(Path path, FsPermission permission) throws IOException {
    FileModes.set(pathToFile(path).toPath(), permission);
  }
}
