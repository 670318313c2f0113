package io.headrace.storage;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.fs.permission.FsPermission;

/** Modes of files, as the system stores them. */
final class FileModes {
  private static final String MODE = "unix:mode";
  private static final int ALL = 07777;
  private static final int SET_IDS = 06000;

  private FileModes() {}

  /**
   * Gives a file or folder the permissions, unless it has them: a file system without modes refuses every change. A
   * folder keeps its bits that hand the group down to what is made in it, as with {@code chmod 0755}.
   */
  static void set(Path path, FsPermission permission) throws IOException {
    int before = (int) Files.getAttribute(path, MODE) & ALL;
    int kept = Files.isDirectory(path) ? before & SET_IDS : 0;
    int mode = permission.toShort() & ALL | kept;
    if (mode != before) {
      Files.setAttribute(path, MODE, mode);
    }
  }
}
